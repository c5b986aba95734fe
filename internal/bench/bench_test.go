package bench

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// rankVariable makes this test binary behave as a measured program.
const rankVariable = "GORUN_BENCH_TEST_RANK"

func TestMain(m *testing.M) {
	switch os.Getenv(rankVariable) {
	case "fail":
		os.Exit(7)
	case "stand":
		_, _ = os.Stdout.WriteString("here\n")
		fallthrough
	case "hang":
		time.Sleep(time.Minute) // killed long before
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// self is this binary as a program that does what role says.
func self(t *testing.T, name, role string) Peer {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return Peer{Name: name, Argv: []string{binary, "-test.run=^$"}, Environ: append(os.Environ(), rankVariable+"="+role)}
}

func TestInterleaveCountsWhatWentWrong(t *testing.T) {
	hang := self(t, "hang", "hang")
	hang.Runs, hang.Limit = 1, 10*time.Millisecond
	series, err := Interleave(2, []Peer{self(t, "good", ""), self(t, "fail", "fail"), hang})
	require.NoError(t, err)

	require.Len(t, series[0].Walls, 2)
	require.Zero(t, series[0].Cut+series[0].Failed)
	require.LessOrEqual(t, series[0].Min(), series[0].Median())
	require.Equal(t, Series{Name: "fail", Failed: 2}, series[1])
	require.Equal(t, Series{Name: "hang", Cut: 1}, series[2])
}

// The measured programs are what users' programs are compared with: they run once under a sanitizer.
func TestOurProgramsAreSound(t *testing.T) {
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	t.Chdir(testneeds.Repository(t))
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := FindPrograms(self, Sanitized...)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	said, err := exec.Command(p.Forkloop, "3", p.Flood, "70000").CombinedOutput()
	require.NoError(t, err, "%.500s", said)
	require.Equal(t, 3*70_000, len(said))

	stand := exec.Command(p.Stand)
	out, err := stand.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, stand.Start())
	here, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "here\n", here)
	require.NoError(t, stand.Process.Kill())
	require.ErrorContains(t, stand.Wait(), "killed")
}

func TestInterleaveNamesAMissingProgram(t *testing.T) {
	_, err := Interleave(1, []Peer{{Name: "nobody", Argv: []string{"/nowhere/program"}}})
	require.ErrorContains(t, err, "nobody: start /nowhere/program")
}

func TestRunsAreSpreadOverRounds(t *testing.T) {
	for _, row := range []struct{ runs, rounds, want int }{{0, 10, 10}, {3, 10, 3}, {10, 10, 10}, {12, 10, 10}, {1, 1, 1}, {7, 30, 7}} {
		took := 0
		for round := range row.rounds {
			if (Peer{Runs: row.runs}).takesPart(round, row.rounds) {
				took++
			}
		}
		require.Equal(t, row.want, took, "%+v", row)
	}
	require.False(t, Peer{Runs: 3}.takesPart(-1, 10), "a slow peer sits the warm-up out")
	require.True(t, Peer{}.takesPart(-1, 10))
}

func TestStandingShowsMemory(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(rankVariable, "stand")
	standing, err := Stand([]string{binary}, 1, time.Minute)
	require.NoError(t, err)
	launcher, helpers, err := standing.Memory("")
	standing.End()
	require.NoError(t, err)
	require.Positive(t, launcher.Now)
	require.LessOrEqual(t, launcher.Now, launcher.Peak)
	require.Zero(t, helpers)

	t.Setenv(rankVariable, "fail")
	_, err = Stand([]string{binary}, 1, time.Minute)
	require.ErrorContains(t, err, "only 0 of 1")
}

func TestDescendantsFindsChildren(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), rankVariable+"=hang")
	require.NoError(t, child.Start())
	require.Contains(t, Descendants(os.Getpid()), child.Process.Pid)
	require.Contains(t, Children(os.Getpid()), child.Process.Pid)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
}

func TestVerdicts(t *testing.T) {
	require.Equal(t, OK, Judge(true, true))
	require.Equal(t, MinOnly, Judge(true, false))
	require.Equal(t, MedianOnly, Judge(false, true))
	require.Equal(t, Miss, Judge(false, false))
}

func TestFigures(t *testing.T) {
	require.Equal(t, "-", Millis(0))
	require.Equal(t, "1.50", Millis(1500*time.Microsecond))
	require.Equal(t, "1500", Millis(1500*time.Millisecond))
	require.Equal(t, "0.75", Ratio(3, 4))
	require.Equal(t, "0.0030", Ratio(3, 1000))
	require.Equal(t, "-", Ratio(3, 0))
}

func TestReportIsATable(t *testing.T) {
	report := NewReport("title", "N", "ms")
	report.Row("256", "1.5")
	report.Note("left out: %d", 3)
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "    N   ms\n  256  1.5\nleft out: 3\n")
}
