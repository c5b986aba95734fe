package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Programs of both families and PyTorch run at the same time on one host, each as its own job.
func TestMPIFamiliesSideBySide(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	mpich, openMPI := testneeds.NeedMPICompiler(t, testneeds.LayerMPICH),
		testneeds.NeedMPICompiler(t, testneeds.LayerOpenMPI)
	cases := words("ring collectives one-sided shared-window")
	all := map[string]*running{
		"mpich":   mpiJob(mpich, append([]string{"-n", "3", compiled(t, mpich, "cases")}, cases...)...).start(t),
		"openmpi": mpiJob(openMPI, append([]string{"-n", "3", compiled(t, openMPI, "cases")}, cases...)...).start(t),
		"torch":   underGorun(python, "-n", "2", example(t, "torch/hello.py")).with("OMP_NUM_THREADS=1").start(t),
	}
	came := results(t, all, 0)
	for _, family := range []string{"mpich", "openmpi"} {
		require.Equal(t, strings.Join(cases, " ok\n")+" ok\n", came[family].stdout)
	}
	require.Contains(t, came["torch"].stdout, "rank 1")
}

// Two programs of one family form one MPI_COMM_WORLD, with different MPI_APPNUM.
func TestMPMDOfMPI(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		hello, other := compiled(t, library, "hello"), compiled(t, library, "ends")
		said := mpiJob(library, "-n", "1", hello, ":", "-n", "2", hello).succeed(t)
		want := append(helloLines(3, 0, universe(library, 3), everybody(3))[:1],
			helloLines(3, 1, universe(library, 3), everybody(3))[1:]...)
		require.Equal(t, want, linesOf(said))
		got := mpiJob(library, "--world=app", "-n", "2", other, ":", "-n", "3", hello).run(t)
		require.Zero(t, got.code, got.stderr)
		for _, line := range append(helloLines(3, 0, universe(library, 5), everybody(3)), "rank 0 of 2: sum 1",
			"rank 1 of 2: sum 1") {
			require.Contains(t, got.stdout, line+"\n", "a world of each program's own")
		}
	})
}

// Each restart starts MPI afresh, without data from ranks of an earlier attempt.
func TestMPIRestarts(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		script := `if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then exec "$0" leave 1 4; else exec "$0" well; fi`
		got := mpiJob(library, "-n", "2", "--max-restarts", "1", "--restart-delay", "0", "--grace", "1", "sh", "-c",
			script, compiled(t, library, "ends")).run(t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, 2, strings.Count(got.stdout, sumOfTwo+"\n"), got.stdout)
	})
}
