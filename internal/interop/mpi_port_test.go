package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// pmiLayers are the libraries that use PMI.
var pmiLayers = []testneeds.Layer{testneeds.LayerMPICH, testneeds.LayerMPICH5, testneeds.LayerIntelMPI}

// An MPI program that is the child of a Python program has no PMI_FD. gorun reports that with a hint. --pmi-port,
// an option of Hydra too, works without it.
func TestMPIBelowAWrapper(t *testing.T) {
	t.Parallel()
	for _, layer := range pmiLayers {
		t.Run(string(layer), func(t *testing.T) {
			t.Parallel()
			m := testneeds.NeedMPI4Py(t, layer)
			wrapped := []string{m.Python, "testdata/mpi/wrapper.py", m.Python, "-c", mpiSum}
			closed := gorun(append([]string{"-n", "2"}, wrapped...)...).with(m.Environ...).run(t)
			assert.NotZero(t, closed.code)
			assert.Contains(t, closed.stderr, "has closed PMI_FD, which it inherits: `--pmi-port` does without it")

			want := []string{"0 of 2, 2\n", "1 of 2, 2\n"}
			assert.Equal(t, want,
				sortedLines(gorun(append([]string{"--pmi-port", "-n", "2"}, wrapped...)...).with(m.Environ...).succeed(t)))
			called := filepath.Join(t.TempDir(), "mpiexec.hydra")
			require.NoError(t, os.Symlink(built("gorun"), called))
			hydra := job{argv: append([]string{called, "-pmi-port", "-n", "2"}, wrapped...)}.with(m.Environ...)
			assert.Equal(t, want, sortedLines(hydra.succeed(t)))

			const unclosed = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]], " +
				"close_fds=False).returncode)"
			open := gorun("-n", "2", m.Python, "-c", unclosed, mpiSum).with(m.Environ...)
			assert.Equal(t, want, sortedLines(open.succeed(t)), "as the hint says")
		})
	}
}

// If the job hangs, gorun reports a program without PMI_FD that has not called MPI_Init yet. It does not report
// programs that need no PMI_FD.
func TestMPIProgramsThatCannotAsk(t *testing.T) {
	t.Parallel()
	m := testneeds.NeedMPI4Py(t, testneeds.LayerMPICH)
	const idle = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; import time; time.sleep(1000)"
	for option, want := range map[string]string{
		"--mpi=auto": "has loaded libmpi",
		"--pmi-port": "",
	} {
		got := gorun(option, "--hang-timeout", "3", "-n", "2", m.Python, "testdata/mpi/wrapper.py", m.Python, "-c",
			idle).with(m.Environ...).run(t)
		assert.Equal(t, 124, got.code, got.stderr)
		if want == "" {
			assert.NotContains(t, got.stderr, "cannot ask gorun for its rank")
			continue
		}
		assert.Regexp(t, `process \d+, a child of rank 0, `+want+
			`.* cannot ask gorun for its rank: its parent closed descriptor 3 \(PMI_FD\); add .--pmi-port`,
			got.stderr)
	}
}

// PMI_PORT works like a descriptor: spawned ranks have their own numbers, and a script may run several programs in
// turn.
func TestMPIOverPMIPort(t *testing.T) {
	t.Parallel()
	eachMPI(t, []testneeds.Layer{testneeds.LayerMPICH, testneeds.LayerMPICH5}, func(t *testing.T, library testneeds.MPI) {
		for _, n := range []string{"2", "4"} {
			cases := words("ring collectives one-sided shared-type")
			if library.Layer == testneeds.LayerMPICH5 {
				cases = append(cases, casesDynamic...)
			}
			runCases(t, mpiJob(library, "--pmi-port", "-n", n, compiled(t, library, "cases")), cases)
		}
		hello := compiled(t, library, "hello")
		said := mpiJob(library, "--pmi-port", "-n", "3", "sh", "-c", `"$0" && "$0"`, hello).succeed(t)
		once := helloLines(3, 0, universe(library, 3), everybody(3))
		assert.Equal(t, linesOf(strings.Repeat(strings.Join(once, "\n")+"\n", 2)), linesOf(said))
		apart := mpiJob(library, "--pmi-port", "--world", "app", "-n", "1", hello, ":", "-n", "2", hello).succeed(t)
		assert.Len(t, linesOf(apart), 3)
		assert.Contains(t, apart, "rank 0 of 1")
		assert.Contains(t, apart, "rank 1 of 2")
	})
}

// PMI_PORT sends nothing to processes of other users, and refuses processes of other ranks. The job continues.
func TestUnknownClientsAtPMIPort(t *testing.T) {
	t.Parallel()
	library := testneeds.NeedMPICompiler(t, testneeds.LayerMPICH)
	hello := compiled(t, library, "hello")
	got := mpiJob(library, "--pmi-port", "-n", "2", "/usr/bin/python3", "testdata/mpi/unknown_clients.py", hello).run(t)
	require.Zero(t, got.code, got.stderr)
	received, rest, _ := strings.Cut(got.stdout, "rank ")
	want := "b'cmd=error rc=-1 msg=it_claims_rank_0,_whose_process_(pid_"
	if os.Geteuid() == 0 {
		want = "b''\n" + want
	}
	assert.True(t, strings.HasPrefix(received, want), received)
	assert.Equal(t, helloLines(2, 0, universe(library, 2), everybody(2)), linesOf("rank "+rest))
	assert.Equal(t, 1,
		strings.Count(got.stderr,
			"refused a process that connected to PMI_PORT: it claims rank 0, whose process (pid "),
		got.stderr)
}
