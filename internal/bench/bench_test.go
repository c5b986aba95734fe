package main

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// roleVariable has this test binary act as a measured program.
const roleVariable = "GORUN_BENCH_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "fail":
		os.Exit(7)
	case "stand":
		_, _ = os.Stdout.WriteString("here\n")
		fallthrough
	case "hang":
		time.Sleep(time.Minute) // killed long before
		os.Exit(1)
	case "run":
		runUntilSignal()
	}
	if len(os.Args) == 3 && os.Args[1] == "as-rank" {
		main()
		return
	}
	os.Exit(m.Run())
}

// self is this binary in a role.
func self(t *testing.T, name, role string) peer {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return peer{name: name, argv: []string{binary, "-test.run=^$"}, environ: []string{roleVariable + "=" + role}}
}

func TestInterleaveCountsFailures(t *testing.T) {
	hang := self(t, "hang", "hang")
	hang.runs, hang.limit = 1, 10*time.Millisecond
	b := &bench{rounds: 1}
	all, err := b.interleave(2, []peer{self(t, "good", ""), self(t, "fail", "fail"), hang})
	require.NoError(t, err)
	require.Len(t, all[0].samples, 2)
	require.Zero(t, all[0].cut+all[0].failed)
	require.LessOrEqual(t, all[0].min(), all[0].median())
	require.Equal(t, []series{{failed: 2}, {cut: 1}}, all[1:])

	_, err = b.interleave(1, []peer{{name: "nobody", argv: []string{"/nowhere/program"}}})
	require.ErrorContains(t, err, "nobody: start /nowhere/program")
}

func TestRunsAreSpreadOverRounds(t *testing.T) {
	for _, c := range []struct{ runs, rounds, want int }{{0, 10, 10}, {3, 10, 3}, {12, 10, 10}, {1, 1, 1}, {7, 30, 7}} {
		took := 0
		for round := range c.rounds {
			if (peer{runs: c.runs}).takesPart(round, c.rounds) {
				took++
			}
		}
		require.Equal(t, c.want, took, "%+v", c)
	}
	require.False(t, peer{runs: 3}.takesPart(-1, 10), "a slow peer needs no warm-up")
	require.True(t, peer{}.takesPart(-1, 10))
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal         goal
		ours, theirs samples
		target, want string
	}{
		{goal{}, samples{2}, samples{1}, "", ""},
		{goal{ratio: 0.5}, samples{2, 1}, samples{2, 4}, "≤ 0.5", "ok"},
		{goal{ratio: 0.5}, samples{1, 3}, samples{4, 2}, "≤ 0.5", "miss (median)"},
		{goal{above: 2}, samples{5, 6}, samples{2, 4}, "≤ +2.00 ms", "miss (minimum)"},
		{goal{ratio: 1}, samples{5, 6}, samples{}, "≤ 1", noFigure},
		{goal{least: 1.05}, samples{110, 90, 100}, samples{100, 100, 80}, "≥ 1.05", "miss (median)"},
		{goal{ratio: 0.5}, samples{2}, samples{4}, "≤ 0.5", "ok"},
		{goal{most: 1}, samples{2}, samples{4}, "≤ 1", "miss"},
	} {
		require.Equal(t, c.target, c.goal.String())
		require.Equal(t, c.want, c.goal.judge(c.ours, c.theirs), "%+v", c)
	}
}

func TestFigures(t *testing.T) {
	require.Equal(t, "-", number(0))
	require.Equal(t, "1500", number(millis(1500*time.Millisecond)))
	require.Equal(t, "0.75", ratio(3, 4))
	require.Equal(t, "0.0030", ratio(3, 1000))
	require.Equal(t, "-", ratio(3, 0))
	r := newReport("title", "N", "ms")
	r.row(256, "1.5")
	r.note("left out: %d", 3)
	var text strings.Builder
	require.NoError(t, r.print(&text))
	require.Contains(t, text.String(), "    N   ms\n  256  1.5\nleft out: 3\n")

	r.row(64, "ok")
	r.row(1, "miss (median)")
	short := r.missed()
	require.Equal(t, [][]string{{"1", "miss (median)"}}, short.Rows)
	require.Equal(t, "title: 1 of 2 targets are reached", short.Title)
}

func TestResidentSize(t *testing.T) {
	t.Setenv(roleVariable, "stand")
	job, err := start(exec.Command(os.Args[0]), 1)
	require.NoError(t, err)
	launcher, err := residentSizeOf(job.Process.Pid)
	require.Contains(t, processTree()[os.Getpid()], job.Process.Pid)
	job.stop()
	require.NoError(t, err)
	require.Positive(t, launcher.now)
	require.LessOrEqual(t, launcher.now, launcher.peak)
	t.Setenv(roleVariable, "fail")
	_, err = start(exec.Command(os.Args[0]), 1)
	require.ErrorContains(t, err, "only 0 of 1")
}

// testBench has our programs, compiled with sanitizers.
func testBench(t *testing.T) *bench {
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	t.Chdir(testneeds.Repository(t))
	p, err := findPrograms(t.TempDir(), os.Args[0], sanitizerOptions...)
	require.NoError(t, err)
	return &bench{programs: p, rounds: 1}
}

func TestProgramsPassSanitizers(t *testing.T) {
	b := testBench(t)
	said, err := exec.Command(b.forkloop, "3", b.flood, "70000").CombinedOutput()
	require.NoError(t, err, "%.500s", said)
	require.Equal(t, 3*70_000, len(said))
	job, err := start(exec.Command(b.stand), 1)
	require.NoError(t, err)
	job.stop()
}

func TestEveryModeOfStoreload(t *testing.T) {
	b := testBench(t)
	store, err := tcpstore.Listen(tcpstore.Config{Logf: func(format string, args ...any) { t.Errorf(format, args...) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	at := []string{"-s", store.Addr().String() + ":" + strconv.Itoa(os.Getpid()), "-c", "5"}
	ops, err := b.load("ops", append(at, append(at, "-r", "2", "-w", "1", "-n", "50")...)...)
	require.NoError(t, err)
	require.Len(t, ops, 6*2*2, "operations, rounds, servers")
	for i, one := range ops {
		require.GreaterOrEqual(t, one.Operations, 50.0)
		require.Positive(t, one.Seconds)
		require.Equal(t, []int{0, 1, 1, 0}[i%4], one.Server, "each round starts with another server")
	}
	for _, mode := range []string{"join", "fanout"} {
		all, err := b.load(mode, append(at, "-n", "3", "-b", "300000")...)
		require.NoError(t, err)
		require.Equal(t, 5, all[0].Clients)
		require.Positive(t, all[0].Seconds)
	}
	tail, err := b.load("tail", append(at, "-t", "5")...)
	require.NoError(t, err)
	require.LessOrEqual(t, tail[0].P50, tail[0].P99)

	for _, args := range [][]string{
		{"ops"},
		{"walk", "-s", "127.0.0.1:1"},
		{"ops", "-s", "nowhere"},
		{"ops", "-s", "127.0.0.1:1", "-c", "0"},
	} {
		_, err := b.load(args[0], args[1:]...)
		require.ErrorContains(t, err, "exit status 2", "%v", args)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	_, err = b.load("ops", "-s", gone.Addr().String())
	require.ErrorContains(t, err, "exit status 1")
}

func TestStoreWithoutAddress(t *testing.T) {
	_, err := startStore("/bin/echo", "usage: something")
	require.ErrorContains(t, err, `it said "usage: something"`)
	s, err := startStore("/bin/echo", "127.0.0.1:99 1.5")
	require.NoError(t, err)
	require.Equal(t, uint16(99), netip.MustParseAddrPort(s.addr).Port())
	s.stop()
}

func TestStoreRows(t *testing.T) {
	rate := pair{{110, 90, 100}, {100, 100, 80}}
	require.Equal(t, 1.1, rate.ratio())
	took := pair{{2}, {4}}
	r := storeComparison{report: newReport("")}
	r.compareRow("x", "s", took, pair{}, goal{ratio: 0.5}, goal{})
	r.compareRow("y", "s", pair{}, pair{}, goal{ratio: 0.5}, goal{})
	r.compareRow("z", "k/s", rate, took, goal{least: 1.05}, goal{ratio: 0.5})
	require.Equal(t, "x s 2.00 2.00 4.00 4.00 0.50 0.50 ≤ 0.5 ok", strings.Join(r.Rows[0], " "))
	require.Contains(t, r.Rows[1], noFigure)
	require.Equal(t, "z k/s 110 100 100 100 1.00 1.10 ≥ 1.05 miss (median) 2.00 4.00 0.50 ≤ 0.5 ok",
		strings.Join(r.Rows[2], " "))
}

func TestRank(t *testing.T) {
	s, err := startSession("", ours, 1, exec.Command(os.Args[0], "as-rank", "4096"))
	require.NoError(t, err)
	defer s.close()
	for _, operation := range []string{
		"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall",
		"sendrecv", "barrier",
	} {
		for shared := range 2 {
			a, err := s.run(task{operation: operation, bytes: 1024, warm: 1, calls: 5, shared: shared})
			require.NoError(t, err)
			require.Positive(t, a.total)
		}
	}
	r := &row{setting: setting{ranks: 1, sessions: map[string]*session{ours: s}}, operation: "allreduce", bytes: 64}
	c := &callComparison{bench: &bench{rounds: 1}, rounds: 2, batch: time.Millisecond}
	require.NoError(t, r.measure(c, newReport("")))
	require.Len(t, r.figures[ours].all, 2)
	require.Positive(t, r.figures[allocated].figure(samples.min))

	_, err = startSession("", "true", 2, exec.Command("/bin/true"))
	require.ErrorContains(t, err, "true: only 0 of 2 ranks came")
}

// The first element of a rank's result, for three ranks whose last inputs start with 7, 8 and 9.
func TestExpectedResults(t *testing.T) {
	for _, c := range []struct {
		operation string
		rank      int
		want      float64
		checked   bool
	}{
		{"allreduce", 2, 24, true},
		{"reduce", 0, 24, true},
		{"reduce", 1, 24, false},
		{"broadcast", 2, 7, true},
		{"allgather", 1, 7, true},
		{"reducescatter", 0, 24, true},
		{"alltoall", 0, 7, true},
		{"alltoall", 1, 7, false},
		{"sendrecv", 0, 9, true},
		{"sendrecv", 2, 8, true},
		{"pingpong", 0, 9, true},
		{"pingpong", 2, 7, true},
		{"barrier", 0, 0, false},
	} {
		want, checked := task{operation: c.operation, calls: 8}.expect(c.rank, 3)
		require.Equal(t, c.checked, checked, "%+v", c)
		if checked {
			require.Equal(t, c.want, want, "%+v", c)
		}
	}
}

// The writes are subtracted, and comm is compared with the best rival.
func TestCollectiveRows(t *testing.T) {
	f := &figures{calls: 1}
	f.add(timing{total: 20 * time.Microsecond, writing: 2 * time.Microsecond})
	f.add(timing{total: 22 * time.Microsecond, writing: 3 * time.Microsecond})
	require.Equal(t, "18.0 / 20.0", f.String())
	even := func(us time.Duration) *figures {
		f := &figures{calls: 1}
		f.add(timing{total: us * time.Microsecond})
		return f
	}
	table := newReport("")
	for _, r := range []*row{
		{
			setting: setting{ranks: 2}, operation: "allreduce", bytes: 64 * kib,
			figures: map[string]*figures{ours: even(20), openMPI: even(40), gloo: even(30)},
		},
		{
			setting: setting{ranks: 2, each: 1}, operation: "sendrecv", bytes: mib,
			figures: map[string]*figures{ours: even(101), mpich: even(90)},
		},
	} {
		r.write(table)
	}
	for i, want := range []string{
		"2 allreduce 65536 20.0 / 20.0 40.0 / 40.0 - 30.0 / 30.0 0.67 0.67 ≤ 0.67 ok 0.00",
		"1 sendrecv 1048576 101 / 101 - 90.0 / 90.0 - 1.12 1.12 ≤ 1 miss 0.00",
	} {
		require.Equal(t, want, strings.Join(table.Rows[i], " "))
	}
}

// runUntilSignal is a run with a directory and an orphan, whose process ID it prints.
func runUntilSignal() {
	cleanUpAtExit(os.Getenv("GORUN_BENCH_TEST_DIR"))
	orphan, err := exec.Command("/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(orphan)
	select {}
}

// A run that a signal ends removes its processes and its directory.
func TestSignalsLeaveNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o700))
	p := self(t, "", "run")
	run := exec.Command(p.argv[0])
	run.Env = append(append(os.Environ(), p.environ...), "GORUN_BENCH_TEST_DIR="+dir)
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	defer run.Process.Kill()
	pid, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	process := filepath.Join("/proc", strings.TrimSpace(pid))
	require.DirExists(t, process)
	require.NoError(t, run.Process.Signal(os.Interrupt))
	require.ErrorContains(t, run.Wait(), "exit status 130")
	if state, err := os.ReadFile(filepath.Join(process, "stat")); err == nil {
		require.Contains(t, string(state), ") Z ", "a zombie that init has yet to reap")
	}
	require.NoDirExists(t, dir)
}

func TestSelection(t *testing.T) {
	b := &bench{only: "4,16", rounds: 0.01}
	require.ErrorContains(t, b.run("gorun", 0, []string{"launch", "lunch"}), `"lunch" is not a workload`)
	require.True(t, b.selects(16) && !b.selects(1))
	require.Equal(t, 1, b.scale(30))
	b.until = time.Now()
	more := b.nextRow(500)
	require.True(t, more(0) && !more(1)) // one round, even if the time is over
}
