package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// mpi4pys are the libraries that have mpi4py.
var mpi4pys = []testneeds.Layer{
	testneeds.LayerMPICH, testneeds.LayerOpenMPI, testneeds.LayerMPICH5,
	testneeds.LayerOpenMPI5, testneeds.LayerIntelMPI,
}

// suite is the program of the broad suite with some cases, or all if no case is named.
func suite(library testneeds.MPI, cases ...string) []string {
	return append([]string{library.Python, "testdata/mpi/suite.py"}, cases...)
}

// suiteLines are the output lines of a suite job.
func suiteLines(t *testing.T, j job) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(j.succeed(t)), "\n")
}

// sampledMPI4Pys are mpi4pys without one of the last two, whose ranks start slowly. `make soak` runs all.
func sampledMPI4Pys(t *testing.T) []testneeds.Layer {
	t.Helper()
	if testneeds.Soak() {
		return mpi4pys
	}
	return append(slices.Clone(mpi4pys[:3]), mpi4pys[3+testneeds.Rand(t).IntN(2)])
}

// The suite prints the same lines under gorun and under the library's own launcher.
func TestMPISuite(t *testing.T) {
	t.Parallel()
	sizes := []int{2}
	if testneeds.Soak() {
		sizes = []int{1, 2, 3, 4, 5, 6, 7, 8}
	}
	for _, layer := range sampledMPI4Pys(t) {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			library := testneeds.NeedMPI4Py(t, layer)
			for _, n := range sizes {
				theirs := suiteLines(t, job{argv: library.Launch(n, suite(library)...)}.with(library.Environ...))
				require.Contains(t, theirs[0], fmt.Sprintf("%d ranks of ", n))
				require.Greater(t, len(theirs), 30)
				require.Equal(t, theirs,
					suiteLines(t, mpiJob(library, append([]string{"-n", fmt.Sprint(n)}, suite(library)...)...)))
			}
		})
	}
}

// Wheels and mpi4py agree on the ranks, whichever the library.
func TestMPI4Py(t *testing.T) {
	t.Parallel()
	cases := []string{"send_recv", "broadcast", "allgather", "split_type", "attributes"}
	var known [][]string
	for _, layer := range []testneeds.Layer{testneeds.LayerMPICH5, testneeds.LayerIntelMPI, testneeds.LayerOpenMPI5} {
		library := testneeds.NeedMPI4Py(t, layer)
		sizes := mpiSizes(t, layer)
		if !testneeds.Soak() {
			sizes = sizes[1:]
		}
		for i, n := range sizes {
			lines := suiteLines(t, mpiJob(library, append([]string{"-n", fmt.Sprint(n)}, suite(library, cases...)...)...))
			require.Contains(t, lines[0], fmt.Sprintf("%d ranks of ", n))
			if i >= len(known) {
				known = append(known, lines[1:])
			}
			require.Equal(t, known[i], lines[1:], "%s", layer)
			require.Len(t, lines, len(cases)+1)
		}
	}
}

// In one job each process has the same rank in PyTorch, in MPI and in the environment variables.
func TestMPIMeetsPyTorch(t *testing.T) {
	t.Parallel()
	for _, layer := range []testneeds.Layer{testneeds.LayerMPICH5, testneeds.LayerOpenMPI} {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			library := testneeds.NeedMPI4Py(t, layer)
			testneeds.Torch(t)
			said := mpiJob(library, "-n", "2", library.Python,
				"testdata/mpi/torch_meets_mpi.py").with("OMP_NUM_THREADS=1").succeed(t)
			var want []string
			for rank := range 2 {
				want = append(want, fmt.Sprintf("rank %d of 2 for MPI, %d of 2 for PyTorch, sums 1 and 1, seen as %d", rank,
					rank, rank))
			}
			require.Equal(t, want, linesOf(said))
		})
	}
}

// The data-parallel example of the tutorials.
func TestMPIExample(t *testing.T) {
	t.Parallel()
	library := testneeds.NeedMPI4Py(t, testneeds.LayerMPICH5)
	var losses []string
	for _, n := range []string{"1", "4"} {
		lines := linesOf(mpiJob(library, "-n", n, library.Python,
			example(t, "mpi/data_parallel.py")).with("OMP_NUM_THREADS=1").succeed(t))
		last := lines[slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "after ") })]
		losses = append(losses, last)
		require.Contains(t, lines, fmt.Sprintf("%s ranks have the same weights", n))
	}
	require.Equal(t, losses[0], losses[1], "the sum over all ranks is what one rank finds alone")
}
