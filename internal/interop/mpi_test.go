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

// mpiSource is where a source file lies.
func mpiSource(name string) string {
	if name == "hello.c" {
		return filepath.Join("..", "..", "examples", "mpi", name)
	}
	return filepath.Join("testdata", "mpi", name)
}

// mpiFlags: gcc takes MPICH's MPI_STATUSES_IGNORE for an array that is too short.
var mpiFlags = strings.Fields("-O1 -g -std=gnu11 -Wall -Wextra -Werror -Wno-stringop-overflow -pthread")

// mpiBuilt holds a function for each library and program, which compiles it once.
var mpiBuilt sync.Map

// compiled returns the path of one of mpiPrograms, made by a library's own compiler.
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

// mpiJob is gorun with ranks of a library's, which find what it needs in their environment.
func mpiJob(library testneeds.MPI, args ...string) job {
	return gorun(args...).with(library.Environ...)
}

// mpiCompilers are the libraries for which C programs can be compiled.
var mpiCompilers = []testneeds.Layer{
	testneeds.LayerMPICH, testneeds.LayerOpenMPI, testneeds.LayerMPICH5,
	testneeds.LayerOpenMPI5,
}

// debianMPI are those that everybody has who has Debian.
var debianMPI = mpiCompilers[:2]

// eachMPI runs a test for each of some libraries, side by side.
func eachMPI(t *testing.T, layers []testneeds.Layer, test func(t *testing.T, library testneeds.MPI)) {
	t.Helper()
	for _, layer := range layers {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			test(t, testneeds.NeedMPICompiler(t, layer))
		})
	}
}

// mpiSizes are the numbers of ranks of a test with a library: 1, 2, 4 and one of 5 to 16 with Debian's, a few with the
// others, whose ranks begin the same protocols and take up to a quarter of a second to load. In make soak all have all.
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

// helloLines is what ranks of hello say, sorted: here of them share memory with each.
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

// linesOf are the lines of a text, sorted, without their ends.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// succeedSaying runs a job that must end well; standard error may have remarks.
func (j job) succeedSaying(t *testing.T) string {
	t.Helper()
	got := j.run(t)
	require.Zero(t, got.code, "%s: stdout: %s\nstderr: %s", j.argv, got.stdout, got.stderr)
	return got.stdout
}

// universe is MPI_UNIVERSE_SIZE of a job on this host, -1 where it is not set, as under each library's own launcher.
func universe(library testneeds.MPI, size int) int {
	if library.Layer == testneeds.LayerOpenMPI || library.Layer == testneeds.LayerOpenMPI5 {
		return max(size, cpus())
	}
	return -1
}

// What the user says of MPI_UNIVERSE_SIZE holds for every library.
func TestMPIUniverse(t *testing.T) {
	t.Parallel()
	eachMPI(t, debianMPI, func(t *testing.T, library testneeds.MPI) {
		for usize, want := range map[string]int{"9": 9, "SYSTEM": max(2, cpus()), "INFINITE": universe(library, 2)} {
			said := mpiJob(library, "--usize", usize, "-n", "2", compiled(t, library, "hello")).succeedSaying(t)
			require.Equal(t, helloLines(2, 0, want, everybody(2)), linesOf(said), usize)
		}
	})
}

// cpus are those that this process may use.
func cpus() int {
	said, err := exec.Command("nproc").Output()
	if err != nil {
		return 1
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(said)))
	return n
}

// A program in C says what MPI tells it: who it is, and whom it shares memory with.
func TestMPIHello(t *testing.T) {
	t.Parallel()
	eachMPI(t, mpiCompilers, func(t *testing.T, library testneeds.MPI) {
		for _, n := range mpiSizes(t, library.Layer) {
			said := mpiJob(library, "-n", fmt.Sprint(n), compiled(t, library, "hello")).succeedSaying(t)
			require.Equal(t, helloLines(n, 0, universe(library, n), everybody(n)), linesOf(said))
		}
	})
}

// What C programs do with MPI, by what it needs of the launcher.
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
		cases = append(cases, casesLarge...) // with more ranks than CPUs these take long under any launcher
	}
	if library.Layer != testneeds.LayerOpenMPI {
		cases = append(cases, "compare-and-swap") // 4.1.4 crashes
	}
	if library.Layer != testneeds.LayerMPICH {
		cases = append(cases, casesDynamic...) // Debian 12's is built for UCX, for which it has none
	}
	return cases
}

// netmod: with MPICH 5 the address that UCX makes of all interfaces is longer than a C program's MPI_MAX_PORT_NAME;
// libfabric's is not.
const netmod = "MPIR_CVAR_CH4_NETMOD=ofi"

// runCases runs cases, each of which checks what it gets.
func runCases(t *testing.T, j job, cases []string) {
	t.Helper()
	j.argv = append(j.argv, cases...)
	want := strings.Join(cases, " ok\n") + " ok\n"
	require.Equal(t, want, j.with(netmod).succeedSaying(t))
}

// All sorts of calls, with checked results.
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

// Where --mpi serves a protocol that a library does not speak, the job fails and says why: its ranks do not
// run as so many worlds of one rank. With --mpi none they do, as the user asked, and are warned of.
func TestMPIMode(t *testing.T) {
	t.Parallel()
	for layer, mode := range map[testneeds.Layer]string{
		testneeds.LayerMPICH: "pmi1", testneeds.LayerOpenMPI: "pmix",
		testneeds.LayerMPICH5: "pmi1",
	} {
		library := testneeds.NeedMPICompiler(t, layer)
		said := mpiJob(library, "-n", "2", "--mpi", mode, compiled(t, library, "hello")).succeed(t)
		require.Equal(t, helloLines(2, 0, universe(library, 2), everybody(2)), linesOf(said))
		got := mpiJob(library, "-n", "2", "--mpi", "none", compiled(t, library, "ends")).run(t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, 2, strings.Count(got.stdout, "rank 0 of 1: sum 0"), got.stdout)
		require.Equal(t, 1, strings.Count(got.stderr, "libmpi"), "one warning names the library: %s", got.stderr)
		require.Contains(t, got.stderr, "--mpi")
		other := map[string]string{"pmi1": "pmix", "pmix": "pmi2"}[mode]
		got = mpiJob(library, "-n", "2", "--mpi", other, compiled(t, library, "ends")).run(t)
		require.NotZero(t, got.code, got.stdout)
		require.NotContains(t, got.stdout, "of 1")
		if layer != testneeds.LayerMPICH5 { // which asks nobody, and says so in words of its own
			require.Contains(t, got.stderr, "remove --mpi")
		}
	}
}

// Nothing of a job with MPI is left: no file of its libraries' or of gorun's.
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
