package interop

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// mpiLayers are all MPI libraries.
var mpiLayers = []testneeds.Layer{
	testneeds.LayerMPICH, testneeds.LayerOpenMPI, testneeds.LayerMPICH5, testneeds.LayerOpenMPI5, testneeds.LayerIntelMPI,
}

// mpiSum prints its rank, the size of its MPI_COMM_WORLD, and the sum of one per rank there.
const mpiSum = `from mpi4py import MPI; w = MPI.COMM_WORLD; n = w.allreduce(1); ` +
	`import os; os.write(1, f"{w.rank} of {w.size}, {n}\n".encode())`

// sortedLines are the lines of a text, sorted.
func sortedLines(text string) []string {
	return slices.Sorted(strings.Lines(text))
}

// A rank may run the library's own launcher, whose ranks form their own world. That launcher may also start gorun
// twice, and each gorun starts its own ranks.
func TestMpirunInsideARank(t *testing.T) {
	for _, layer := range mpiLayers {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			m := testneeds.NeedMPI4Py(t, layer)
			want := []string{"0 of 2, 2\n", "0 of 2, 2\n", "1 of 2, 2\n", "1 of 2, 2\n"}
			inside := gorun(append([]string{"-n", "2"}, m.Launch(2, m.Python, "-c", mpiSum)...)...).with(m.Environ...)
			assert.Equal(t, want, sortedLines(inside.succeed(t)))

			outside := job{argv: m.Launch(2, built("gorun"), "-q", "--label", "never", "-n", "2", m.Python, "-c",
				mpiSum)}.with(m.Environ...)
			output := strings.ReplaceAll(outside.succeed(t), "\r", "") // Open MPI's ranks have terminals
			assert.Equal(t, want, sortedLines(output))
		})
	}
}

// Programs of two MPI families do not share one MPI_COMM_WORLD. With --world app each program has its own, with
// ranks that start at 0.
func TestTwoMPIFamilies(t *testing.T) {
	dir := t.TempDir()
	programs := map[testneeds.Layer]string{}
	for _, layer := range []testneeds.Layer{testneeds.LayerOpenMPI, testneeds.LayerMPICH} {
		m := testneeds.NeedMPICompiler(t, layer)
		programs[layer] = filepath.Join(dir, string(layer))
		out, err := exec.Command(m.Compiler, append([]string{"-o", programs[layer], "testdata/mpi/world.c"},
			m.Flags...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	line := []string{"-q", "-n", "1", programs[testneeds.LayerOpenMPI], ":", "-n", "2", programs[testneeds.LayerMPICH]}
	got := gorun(line...).run(t)
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stderr, "uses Open MPI, app 1 ("+programs[testneeds.LayerMPICH]+
		") uses MPICH: they cannot share an MPI_COMM_WORLD; --world app")

	output := gorun(append([]string{"--world", "app"}, line...)...).succeed(t)
	assert.Equal(t, []string{
		"RANK 0 of 3: 0 of 1, app 0\n", "RANK 1 of 3: 0 of 2, app 0\n",
		"RANK 2 of 3: 1 of 2, app 0\n",
	}, sortedLines(output))
}
