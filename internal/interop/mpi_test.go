package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// mpiPrograms are C programs and their sources.
var mpiPrograms = map[string][]string{
	"hello": {"hello.c"},
	"ends":  {"ends.c"},
	"cases": {"cases.c", "points.c", "collectives.c", "communicators.c", "onesided.c", "dynamic.c"},
}

// mpiSource is the path of a source file.
func mpiSource(name string) string {
	if name == "hello.c" {
		return filepath.Join("..", "..", "examples", "mpi", name)
	}
	return filepath.Join("testdata", "mpi", name)
}

// mpiFlags: gcc believes that MPICH's MPI_STATUSES_IGNORE is an array that is too short.
var mpiFlags = strings.Fields("-O1 -g -std=gnu11 -Wall -Wextra -Werror -Wno-stringop-overflow -pthread")

// mpiBuilt holds a function per library and program that compiles it once.
var mpiBuilt sync.Map

// compiled returns the path of one of mpiPrograms, built with the library's own compiler.
func compiled(t *testing.T, library testneeds.MPI, name string) string {
	t.Helper()
	key := "mpi-" + string(library.Layer) + "-" + name
	once, _ := mpiBuilt.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		argv := append(slices.Clone(mpiFlags), "-o", built(key))
		for _, source := range mpiPrograms[name] {
			argv = append(argv, mpiSource(source))
		}
		argv = append(argv, library.Flags...)
		if said, err := exec.Command(library.Compiler, argv...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", library.Compiler, name, err, said)
		}
		return built(key), nil
	}))
	path, err := once.(func() (string, error))()
	require.NoError(t, err)
	return path
}

// mpiJob is gorun with ranks of a library, with the environment that they need.
func mpiJob(library testneeds.MPI, args ...string) job {
	return gorun(args...).with(library.Environ...)
}

// mpiCompilers are the libraries that can compile C programs.
var mpiCompilers = []testneeds.Layer{
	testneeds.LayerMPICH, testneeds.LayerOpenMPI, testneeds.LayerMPICH5,
	testneeds.LayerOpenMPI5,
}

// debianMPI are the libraries in Debian's packages.
var debianMPI = mpiCompilers[:2]

// eachMPI runs a test for each of some libraries, in parallel.
func eachMPI(t *testing.T, layers []testneeds.Layer, test func(t *testing.T, library testneeds.MPI)) {
	t.Helper()
	for _, layer := range layers {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			test(t, testneeds.NeedMPICompiler(t, layer))
		})
	}
}

// mpiSizes are the world sizes to test with a library. Debian's libraries get 1, 2, 4 and one of 5 to 16; the
// others get a few. Those use the same protocols, and their ranks take up to a quarter of a second to load. `make
// soak` runs all sizes for all libraries.
func mpiSizes(t *testing.T, layer testneeds.Layer) []int {
	t.Helper()
	switch {
	case testneeds.Soak():
	case slices.Contains(debianMPI, layer):
		return []int{1, 2, 4, 5 + testneeds.Rand(t).IntN(12)}
	default:
		return []int{2, 4}
	}
	all := make([]int, 16)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// helloLines is the expected output of hello, sorted. here returns how many ranks share memory with a rank.
func helloLines(size, program, universe int, here func(rank int) int) []string {
	var lines []string
	for rank := range size {
		lines = append(lines, fmt.Sprintf("rank %d of %d, %d here, program %d, universe %d", rank, size, here(rank),
			program, universe))
	}
	slices.Sort(lines)
	return lines
}

// everybody: all ranks share memory.
func everybody(size int) func(int) int { return func(int) int { return size } }

// linesOf are the lines of a text, sorted, without line ends.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// universe is MPI_UNIVERSE_SIZE of a job on this host. It is -1 if the variable is not set, as under each library's
// own launcher.
func universe(library testneeds.MPI, size int) int {
	if library.Layer == testneeds.LayerOpenMPI || library.Layer == testneeds.LayerOpenMPI5 {
		return max(size, cpus())
	}
	return -1
}

// The MPI_UNIVERSE_SIZE that the user sets applies to every library.
func TestMPIUniverse(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		for usize, want := range map[string]int{"9": 9, "SYSTEM": max(2, cpus()), "INFINITE": universe(library, 2)} {
			said := mpiJob(library, "--usize", usize, "-n", "2", compiled(t, library, "hello")).succeed(t)
			require.Equal(t, helloLines(2, 0, want, everybody(2)), linesOf(said), usize)
		}
	})
}

// cpus is the number of CPUs that this process may use.
func cpus() int {
	said, err := exec.Command("nproc").Output()
	if err != nil {
		return 1
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(said)))
	return n
}

// A C program prints the information that MPI gives it: its rank, and the ranks that share memory with it.
func TestMPIHello(t *testing.T) {
	t.Parallel()
	eachMPI(t, mpiCompilers, func(t *testing.T, library testneeds.MPI) {
		for _, n := range mpiSizes(t, library.Layer) {
			said := mpiJob(library, "-n", fmt.Sprint(n), compiled(t, library, "hello")).succeed(t)
			require.Equal(t, helloLines(n, 0, universe(library, n), everybody(n)), linesOf(said))
		}
	})
}

// Cases of the C programs, grouped by the launcher features that they need.
var (
	casesAnywhere = words("ring all-pairs wildcards datatypes collectives in-place vectors nonblocking communicators " +
		"shared-type attributes shared-window one-sided")
	casesLarge   = words("threads big")
	casesDynamic = words("spawn spawn-multiple names")
)

// casesOf are the cases that a library passes under its own launcher.
func casesOf(library testneeds.MPI, size int) []string {
	cases := slices.Clone(casesAnywhere)
	if size <= 4 || testneeds.Soak() {
		cases = append(cases, casesLarge...) // with more ranks than CPUs these are slow under any launcher
	}
	if library.Layer != testneeds.LayerOpenMPI {
		cases = append(cases, "compare-and-swap") // 4.1.4 crashes
	}
	if library.Layer != testneeds.LayerMPICH {
		cases = append(cases, casesDynamic...) // Debian 12 builds it for UCX, without support for these cases
	}
	return cases
}

// netmod selects libfabric for MPICH 5. The address that UCX makes of all interfaces exceeds MPI_MAX_PORT_NAME of a
// C program.
const netmod = "MPIR_CVAR_CH4_NETMOD=ofi"

// runCases runs cases, each of which checks its results.
func runCases(t *testing.T, j job, cases []string) {
	t.Helper()
	j.argv = append(j.argv, cases...)
	want := strings.Join(cases, " ok\n") + " ok\n"
	require.Equal(t, want, j.with(netmod).succeed(t))
}

// All kinds of calls, with checked results.
func TestMPICases(t *testing.T) {
	t.Parallel()
	eachMPI(t, mpiCompilers, func(t *testing.T, library testneeds.MPI) {
		sizes := mpiSizes(t, library.Layer)
		switch {
		case testneeds.Soak():
		case slices.Contains(debianMPI, library.Layer):
			sizes = []int{sizes[1], sizes[3]}
		case library.Layer == testneeds.LayerMPICH5:
			sizes = sizes[1:]
		default:
			sizes = sizes[:1]
		}
		for _, n := range sizes {
			runCases(t, mpiJob(library, "-n", fmt.Sprint(n), compiled(t, library, "cases")), casesOf(library, n))
		}
	})
}

// If --mpi selects a protocol that the library does not support, the job fails and gorun reports why. Otherwise
// each rank would be a world of its own. With --mpi none the user gets that, with a warning.
func TestMPIMode(t *testing.T) {
	t.Parallel()
	for layer, mode := range map[testneeds.Layer]string{
		testneeds.LayerMPICH: "pmi1", testneeds.LayerOpenMPI: "pmix",
		testneeds.LayerMPICH5: "pmi1",
	} {
		library := testneeds.NeedMPICompiler(t, layer)
		said := mpiJob(library, "-n", "2", "--mpi", mode, compiled(t, library, "hello")).succeed(t)
		require.Equal(t, helloLines(2, 0, universe(library, 2), everybody(2)), linesOf(said))
		got := mpiJob(library, "-n", "2", "--mpi", "none", compiled(t, library, "ends"), "linger").run(t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, 2, strings.Count(got.stdout, "rank 0 of 1: sum 0"), got.stdout)
		require.Equal(t, 1, strings.Count(got.stderr, "libmpi"), "one warning names the library: %s", got.stderr)
		require.Contains(t, got.stderr, "--mpi")
		other := map[string]string{"pmi1": "pmix", "pmix": "pmi2"}[mode]
		got = mpiJob(library, "-n", "2", "--mpi", other, compiled(t, library, "ends")).run(t)
		require.NotZero(t, got.code, got.stdout)
		require.NotContains(t, got.stdout, "of 1")
		if layer != testneeds.LayerMPICH5 { // it contacts no server and prints its own message
			require.Contains(t, got.stderr, "remove --mpi")
		}
	}
}

// A job with MPI leaves no files, neither of its libraries nor of gorun.
func TestMPILeavesNothing(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		dir := t.TempDir()
		program := compiled(t, library, "ends")
		for _, way := range []string{"well", "abort 1 3", "leave 1 0"} {
			mpiJob(library, append([]string{"-n", "2", program}, words(way)...)...).with("TMPDIR=" + dir).run(t)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "%s", way)
		}
	})
}
