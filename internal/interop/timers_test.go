package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// PyTorch's own client of file timers works with gorun's watchdog. torchrun's watchdog kills the rank, and itself
// by the same signal: with SIGKILL the other ranks go on. gorun ends the job as after every failure.
func TestFileTimersOfPyTorch(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	got := underGorun(python, "-n", "2", "testdata/timers.py").with("TORCHELASTIC_ENABLE_FILE_TIMER=1").run(t)
	require.Equal(t, 137, got.code, got.stderr)
	require.Contains(t, got.stderr, "gorun: rank 1 failed first")
	require.Contains(t, got.stderr, `killed by SIGKILL when its timer "step" expired`)
	require.Contains(t, got.stderr, "1 rank stopped by gorun: [0]")
}
