package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/wire"
)

// Slurm tracks and ends the processes of a step by its own cgroups, even if the launcher is outside of Slurm.
func TestNoCgroupInsideSlurm(t *testing.T) {
	j := &job{
		agent: &Agent{cfg: Config{Environ: []string{"PATH=/bin", "SLURM_JOB_ID=17"}}},
		start: wire.Start{Cgroup: true},
	}
	j.makeCgroup() // would send the cgroup to a guard that does not exist here
	assert.Nil(t, j.cgroup.Load())
}
