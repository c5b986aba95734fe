package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// TestWhatPyTorchDoesWithTheStore runs PyTorch's own uses of the store in one job, because the import of PyTorch is
// most of the cost. They include gloo groups and subgroups, a monitored barrier that one rank misses, DeviceMesh,
// DDP, consecutive process groups and RPC. Finally rank 0 exits while the others need the store.
func TestWhatPyTorchDoesWithTheStore(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	got := underGorun(python, "-n", "4", "testdata/torch_use.py").with("OMP_NUM_THREADS=1").run(t)
	require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)
	for rank := range 4 {
		var steps []string
		for line := range strings.Lines(got.stdout) {
			if step, mine := strings.CutPrefix(line, fmt.Sprintf("rank %d: ", rank)); mine {
				steps = append(steps, strings.TrimSpace(step))
			}
		}
		require.Equal(t, []string{"collectives", "subgroups", "monitored_barrier", "mesh", "ddp", "again", "rpc", "end"},
			steps, "rank %d", rank)
	}
	require.Regexp(t, `Ranks .*\b3 failed to pass monitoredBarrier`, got.stderr)
}
