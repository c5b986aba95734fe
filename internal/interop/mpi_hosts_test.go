package interop

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// twoEach: two ranks share memory with each rank.
func twoEach(int) int { return 2 }

// mpiVenvs is the real path of the mpi4py environments, which a private folder may hide.
func mpiVenvs(t *testing.T) string {
	t.Helper()
	path := filepath.Join(testneeds.Repository(t), ".venv-mpi")
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// overNetworks limits libraries to the network of the test hosts. The hosts are one machine, which libraries can
// detect without their launcher (boot id, names of shared memory). Debian's MPICH chooses for itself: over TCP
// alone its MPI_Finalize sometimes hangs, even under its own mpiexec.
func overNetworks(library testneeds.MPI) []string {
	environ := append([]string{"OMPI_MCA_btl=self,tcp", "OMPI_MCA_pml=ob1", "FI_PROVIDER=tcp", netmod}, library.Environ...)
	if library.Layer != testneeds.LayerMPICH {
		environ = append(environ, "UCX_TLS=tcp,self")
	}
	return environ
}

// TestMPIHosts runs 2 × 2 ranks over hosts.
func TestMPIHosts(t *testing.T) {
	t.Parallel()
	f := raise(t, testhosts.Config{Hosts: 3, Keep: []string{pythonHome(t), venv(t), mpiVenvs(t)}})
	tests := map[string]func(*testing.T, fleet){"attached": mpiNames}
	for _, layer := range mpiCompilers {
		tests[string(layer)] = func(t *testing.T, f fleet) { mpiOverHosts(t, f, testneeds.NeedMPICompiler(t, layer)) }
	}
	for _, layer := range []testneeds.Layer{testneeds.LayerMPICH5, testneeds.LayerIntelMPI} {
		tests["mpi4py "+string(layer)] = func(t *testing.T, f fleet) { mpi4pyOverHosts(t, f, testneeds.NeedMPI4Py(t, layer)) }
	}
	tests["pull"] = func(t *testing.T, f fleet) {
		pmixPull(t, f.gorun("-q", "-H", "h1:2,h2:2", pullProgram(t)), 4)
	}
	several(t, f, tests)
}

// mpiOverHosts: the right ranks share memory, calls between hosts work, and an abort ends all ranks.
func mpiOverHosts(t *testing.T, f fleet, library testneeds.MPI) {
	over := func(args ...string) job { return f.gorun(args...).with(overNetworks(library)...) }
	cases := words("ring all-pairs wildcards collectives vectors communicators shared-type attributes shared-window")
	switch {
	case library.Layer == testneeds.LayerMPICH:
		runUntilStop(t, over("-H", "h1:2,h2:2", compiled(t, library, "cases")), cases)
		runUntilStop(t, over("-H", "h3:1,h1:2", compiled(t, library, "cases")), words("ring shared-type"))
	case library.Layer == testneeds.LayerOpenMPI5 && !testneeds.Soak(): // each rank takes a quarter of a second to load it
		runCases(t, over("-H", "h1:2,h2:2", compiled(t, library, "cases")),
			words("ring collectives shared-type attributes spawn names"))
		return
	default:
		helloOverHosts(t, over, library)
		runCases(t, over("-H", "h1:2,h2:2", compiled(t, library, "cases")), append(cases, "spawn", "names"))
	}
	got := over("-H", "h1:2,h2:2", compiled(t, library, "ends"), "abort", "3", "17").run(t)
	require.Equal(t, 17, got.code, got.stderr)
	require.Contains(t, got.stderr, " (h2, pid ")
}

// helloOverHosts: with several orders of ranks, each rank finds the ranks on its own host.
func helloOverHosts(t *testing.T, over func(args ...string) job, library testneeds.MPI) {
	t.Helper()
	hello := compiled(t, library, "hello")
	slots := func(n int) int { return min(n, universe(library, n)) } // -1 if there is no universe
	said := over("-H", "h1:2,h2:2", hello).succeed(t)
	require.Equal(t, helloLines(4, 0, slots(4), twoEach), linesOf(said))
	said = over("-H", "h1:2,h2:2", "--map-by", "node", "--bind-to", "none", "-np", "4", hello).succeed(t)
	require.Equal(t, helloLines(4, 0, slots(4), twoEach), linesOf(said), "around the hosts")
	said = over("-H", "h3:1,h1:2", hello).succeed(t)
	require.Equal(t, helloLines(3, 0, slots(3), func(rank int) int { return min(rank+1, 2) }), linesOf(said))
}

// runUntilStop runs cases. The last one is "stop", which replaces MPI_Finalize.
func runUntilStop(t *testing.T, j job, cases []string) {
	t.Helper()
	j.argv = append(append(j.argv, cases...), "stop")
	got := j.run(t)
	require.Equal(t, 5, got.code, "%s\n%s", got.stdout, got.stderr)
	require.Equal(t, strings.Join(cases, " ok\n")+" ok\n", got.stdout)
	require.Contains(t, got.stderr, "rank 0 failed first")
}

// mpi4pyOverHosts: mpi4py works over hosts, also together with PyTorch.
func mpi4pyOverHosts(t *testing.T, f fleet, library testneeds.MPI) {
	over := func(args ...string) job { return f.gorun(args...).with(overNetworks(library)...) }
	lines := suiteLines(t, over(append([]string{"-H", "h1:2,h2:2"}, suiteAnywhere(t, library)...)...))
	require.Contains(t, lines[0], "4 ranks of ")
	require.Contains(t, lines, "split_type: [0, 2] | [1, 2] | [0, 2] | [1, 2]")
	if library.Layer == testneeds.LayerMPICH5 {
		script, err := filepath.Abs("testdata/mpi/torch_meets_mpi.py")
		require.NoError(t, err)
		said := over("-H", "h1:1,h2:1", library.Python, script).with("OMP_NUM_THREADS=1").succeed(t)
		require.Contains(t, said, "rank 1 of 2 for MPI, 1 of 2 for PyTorch, sums 1 and 1, seen as 1")
	}
}

// suiteAnywhere is a few cases, with a program path that exists on the hosts.
func suiteAnywhere(t *testing.T, library testneeds.MPI) []string {
	t.Helper()
	script, err := filepath.Abs("testdata/mpi/suite.py")
	require.NoError(t, err)
	return []string{library.Python, script, "send_recv", "allreduce", "alltoall_vector", "split_type", "window_shared"}
}

// mpiNames: PMI and PMIx do not listen where another host could connect.
func mpiNames(t *testing.T, f fleet) {
	got := f.gorun("-H", "h1:1,h2:1", "sh", "-c", `echo "$PMIX_SERVER_URI3 $PMI_FD"`).run(t)
	require.Zero(t, got.code, got.stderr)
	for _, line := range linesOf(got.stdout) {
		require.Regexp(t, `^gorun-node[01]\.0;tcp4://127\.0\.0\.1:\d+ 3$`, line)
	}
}

// pythonHome is the folder of the interpreter of the virtual environments.
func pythonHome(t *testing.T) string {
	t.Helper()
	found, err := filepath.EvalSymlinks(filepath.Join(testneeds.Repository(t), ".venv", "bin", "python"))
	if err != nil {
		return "" // its tests are skipped
	}
	return filepath.Dir(filepath.Dir(found))
}

// TestMPISlurm runs 2 × 2 ranks in Slurm, in each form of starting gorun.
func TestMPISlurm(t *testing.T) {
	c := slurm.Cluster(t)
	for _, layer := range debianMPI {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			library := testneeds.NeedMPICompiler(t, layer)
			for form, make := range map[string]func(args ...string) job{
				"allocation": func(args ...string) job { return inAllocation(t, c, "-N2 -n4 --ntasks-per-node=2", args...) },
				"one gorun per node": func(args ...string) job {
					return inStep(t, c, "-N2 --ntasks-per-node=1", append([]string{"--nproc-per-node", "2"}, args...)...)
				},
				"one gorun per rank": func(args ...string) job { return inStep(t, c, "-N2 -n4 --ntasks-per-node=2", args...) },
			} {
				mpiInSlurm(t, library, form, make)
			}
		})
	}
	t.Run("mpi4py", func(t *testing.T) {
		t.Parallel()
		library := testneeds.NeedMPI4Py(t, testneeds.LayerMPICH5)
		lines := suiteLines(t, inAllocation(t, c, "-N2 -n4 --ntasks-per-node=2", suiteAnywhere(t, library)...))
		require.Contains(t, lines[0], "4 ranks of MPICH")
	})
}

// mpiInSlurm tests calls that depend on the launcher's knowledge of nodes. All nodes are this machine, so Open MPI
// uses TCP only: the names of its shared memory would collide. How many ranks share memory depends on the library.
func mpiInSlurm(t *testing.T, library testneeds.MPI, form string, make func(args ...string) job) {
	got := make(compiled(t, library, "hello")).with(overNetworks(library)...).run(t)
	require.Zero(t, got.code, "%s: %s%s", form, got.stdout, got.stderr)
	for rank := range 4 {
		require.Regexp(t, fmt.Sprintf("rank %d of 4, [24] here, program 0, universe ", rank), got.stdout, form)
	}
	got = make(compiled(t, library, "ends"), "abort", "2", "21").with(overNetworks(library)...).run(t)
	require.Equal(t, 21, got.code, "%s: %s%s", form, got.stdout, got.stderr)
	require.Contains(t, got.stderr, "rank 2 failed first", form)
}
