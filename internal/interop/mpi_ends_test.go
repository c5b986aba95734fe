package interop

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// mpiEnd is a way in which ranks of `ends` start and finish MPI, with the expected messages of gorun.
type mpiEnd struct {
	way  string
	code int      // -1: any code but 0; -2: any code
	says []string // all on standard error
	not  []string
}

const sumOfTwo = "rank 1 of 2: sum 1"

var mpiEnds = []mpiEnd{
	{way: "well"},
	{way: "abort 1 42", code: 42, says: []string{
		"rank 1 failed first", "aborted MPI with code 42",
		"1 rank stopped by gorun: [0]",
	}},
	{way: "abort 0 1", code: 1, says: []string{"rank 0 failed first", "aborted MPI with code 1"}},
	{way: "leave 1 0", code: 1, says: []string{"rank 1 failed first", "without MPI_Finalize"}},
	{way: "leave 1 5", code: 5, says: []string{"rank 1 failed first", "exit code 5"}},
	{way: "leave-all 0", code: 1, says: []string{"without MPI_Finalize"}},
	{way: "crash 1", code: 139, says: []string{"rank 1 failed first", "SIGSEGV"}},
	{way: "only 1", code: 1, says: []string{"rank 1 waits in MPI_Init for rank 0, which has ended (exit code 0)"}},
	{way: "without 1", code: 1, says: []string{"rank 0 waits in MPI_Init for rank 1, which has ended (exit code 0)"}},
	{way: "never", not: []string{"failed", "waits"}},
	{way: "child"},
	{way: "after-child"},
	{way: "both 1", code: -2, says: []string{"rank 1", "MPI_Init", "start it with MPI_Comm_spawn"}},
	{way: "twice 1", code: -1, says: []string{"rank 1 failed first"}, not: []string{"without MPI_Finalize"}},
	{way: "again 1", code: -1, says: []string{"rank 1 failed first"}, not: []string{"without MPI_Finalize"}},
	{way: "finalized 3", code: 3, says: []string{"3 ("}, not: []string{"MPI_Finalize"}},
}

// saysItself is the output of a library about some of them, which must reach the user.
var saysItself = map[testneeds.Layer]map[string]string{
	testneeds.LayerMPICH: {
		"abort 1 42": "MPI_Abort(MPI_COMM_WORLD, 42)",
		"twice 1":    "Cannot call MPI_INIT or MPI_INIT_THREAD more than once",
		"again 1":    "Cannot call MPI_INIT or MPI_INIT_THREAD more than once",
	},
	testneeds.LayerOpenMPI: {
		"abort 1 42": "MPI_ABORT was invoked on rank 1",
		"twice 1":    "more than once",
		"again 1":    "was called after MPI_FINALIZE was invoked",
	},
}

// Each way to start and finish MPI has its own exit code and message, and leaves no rank waiting.
func TestMPIEnds(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		program := compiled(t, library, "ends")
		for _, c := range mpiEnds {
			got := mpiJob(library, append([]string{"-n", "2", "--grace", "1", program}, words(c.way)...)...).run(t)
			what := fmt.Sprintf("%s: exit %d\n%s%s", c.way, got.code, got.stdout, got.stderr)
			switch c.code {
			case -1:
				assert.NotZero(t, got.code, what)
			case -2:
			default:
				assert.Equal(t, c.code, got.code, what)
			}
			if c.code == 0 {
				assert.Equal(t, c.way != "never", strings.Contains(got.stdout, sumOfTwo), what)
			}
			for _, text := range append(c.says, saysItself[library.Layer][c.way]) {
				assert.Contains(t, got.stderr, text, what)
			}
			for _, text := range c.not {
				assert.NotContains(t, got.stderr, text, what)
			}
		}
	})
}

// A spawned rank that aborts ends the job. Its rank number follows those of all other ranks.
func TestMPISpawnedRankFails(t *testing.T) {
	t.Parallel()
	library := testneeds.NeedMPI4Py(t, testneeds.LayerMPICH5)
	got := mpiJob(library, "-n", "2", library.Python, "testdata/mpi/spawn_fails.py").run(t)
	assert.Equal(t, 9, got.code, got.stderr)
	assert.Contains(t, got.stderr, "rank 3 failed first", "2 ranks and 2 children: the second of these")
}

// A rank may be a script that runs two Open MPI programs. For a second MPICH program gorun reports why it fails.
func TestMPIProgramsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		got := mpiJob(library, "-n", "2", "--grace", "1", "sh", "-c", `"$0" well && "$0" well`,
			compiled(t, library, "ends")).run(t)
		if library.IsOpenMPI() {
			assert.Zero(t, got.code, got.stderr)
			assert.Equal(t, 2, strings.Count(got.stdout, sumOfTwo), got.stdout)
			return
		}
		assert.Equal(t, 141, got.code, "as under Hydra: %s", got.stderr)
		assert.Contains(t, got.stderr, "add `--pmi-port`")
	})
}

// If the program of a rank crashes but its shell goes on, other ranks wait. gorun reports that while they wait.
func TestMPIProgramOfAShellCrashes(t *testing.T) {
	t.Parallel()
	library := testneeds.NeedMPICompiler(t, testneeds.LayerOpenMPI)
	r := mpiJob(library, "-n", "2", "--grace", "1", "sh", "-c", `"$0" crash 1; exec sleep 600`,
		compiled(t, library, "ends")).start(t)
	require.True(t, r.until(t, &r.stderr, "rank 1 left MPI without MPI_Finalize", 1), "%s", &r.stderr)
	require.NoError(t, r.command.Process.Signal(syscall.SIGTERM))
	r.wait(t)
}
