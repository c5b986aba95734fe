package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/wire"
)

// Slurm counts and ends the processes of a step by its own cgroups, whether or not the
// head is inside Slurm, too.
func TestNoCgroupInsideSlurm(t *testing.T) {
	j := &job{
		agent: &Agent{cfg: Config{Environ: []string{"PATH=/bin", "SLURM_JOB_ID=17"}}},
		start: wire.Start{Cgroup: true},
	}
	j.makeCgroup() // would tell a guard that there is none of
	assert.Nil(t, j.cgroup)
}
