package launcher

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
)

// The last output may be written when nothing else is left of a job.
func TestOutputLostAfterTheEnd(t *testing.T) {
	for code, ev := range map[int]job.OutputLost{
		job.ExitLauncher: {Stream: 1, Text: syscall.ENOSPC.Error()}, 0: {Stream: 1, ReaderGone: true},
	} {
		sup, _ := job.NewSupervisor(job.SupervisorConfig{Nodes: [][]int{{0}}, StartedAt: time.Now()})
		h := &head{call: &call{}, over: make(chan struct{}), supervision: supervision{sup: sup}}
		sup.Next(job.Exited{Exit: spec.Exit{Rank: 0}})
		h.post(job.CleanedUp{Node: 0})
		h.post(ev)
		require.Equal(t, code, sup.Result().ExitCode)
	}
}
