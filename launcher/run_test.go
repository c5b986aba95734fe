package launcher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/env"
	"gorun/internal/testneeds"
	"gorun/launcher"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

// roleVariable makes the test binary one of its own ranks.
const roleVariable = "LAUNCHER_TEST_ROLE"

var roles = map[string]func(env.Rank){
	"hello": func(r env.Rank) { fmt.Printf("hello from %d of %d\n", r.Rank, r.WorldSize) },
	"fail":  func(r env.Rank) { failing(r) },
	"raise": func(r env.Rank) { raising(r) },
	"role": func(r env.Rank) {
		fmt.Printf("%d is %s of %s of %s\n", r.Rank, os.Getenv("ROLE_RANK"), os.Getenv("ROLE_WORLD_SIZE"),
			os.Getenv("ROLE_NAME"))
	},
	"wait":   func(env.Rank) { fmt.Println("ready"); select {} },
	"stdin":  func(r env.Rank) { b, _ := os.ReadFile("/dev/stdin"); fmt.Printf("%d read %q\n", r.Rank, b) },
	"flood":  func(env.Rank) { os.Stdout.Write(bytes.Repeat([]byte("0123456789abcde\n"), 1<<18)) },
	"bytes":  func(env.Rank) { fmt.Printf("%q %q", os.Args[1:], os.Getenv("LAUNCHER_TEST_BYTES")) },
	"orphan": func(env.Rank) { orphan() },
	"hide":   func(env.Rank) { hide() },
	"meet":   func(r env.Rank) { meet(r) },
	"flaky":  func(r env.Rank) { flaky(r) },
	"pipe":   func(env.Rank) { errorPipe() },
	"nccl":   func(r env.Rank) { speakLikeNCCL(r) },
}

func failing(r env.Rank) {
	if r.Rank == 1 {
		fmt.Fprintln(os.Stderr, "shard 1 is \x1b[31mempty")
		os.Exit(17)
	}
	select {}
}

// raising makes the rank in the first argument fail like a Python program with an exception.
func raising(r env.Rank) {
	if fmt.Sprint(r.Rank) != os.Args[1] {
		select {}
	}
	text := []byte(`{"message":{"message":"ValueError: boom"}}`)
	for { // the path exists soon after the start
		if os.WriteFile(os.Getenv(env.VarTorchelasticErrorFile), text, 0o600) == nil {
			os.Exit(17)
		}
	}
}

// flaky makes rank 1 fail in the first two attempts. All ranks print the keys in their store: an earlier attempt's
// key must not be there.
func flaky(r env.Rank) {
	store, err := tcpstore.Dial(context.Background(), r.Store)
	if err != nil {
		panic(err)
	}
	key := fmt.Sprintf("rank %d", r.Rank)
	old, err := store.Check(context.Background(), key)
	if err != nil || store.Set(context.Background(), key, nil) != nil {
		panic(err)
	}
	fmt.Printf("attempt %d: rank %d, found %v\n", r.Attempt, r.Rank, old)
	if r.Rank == 1 && r.Attempt < 2 {
		os.Exit(3 + r.Attempt)
	}
	if r.Attempt < 2 {
		select {}
	}
}

// meet makes ranks 0 and 1 wait for a key that no rank sets, while rank 2 ends and rank 3 is busy.
func meet(r env.Rank) {
	switch r.Rank {
	case 2:
		return
	case 3:
		select {}
	}
	store, err := tcpstore.Dial(context.Background(), r.Store)
	if err == nil {
		err = store.Wait(context.Background(), "addresses/3")
	}
	panic(err)
}

// errorPipe creates a pipe at the path of PyTorch's error file.
func errorPipe() {
	for { // the path exists soon after the start
		switch err := syscall.Mkfifo(os.Getenv(env.VarTorchelasticErrorFile), 0o600); {
		case err == nil:
			os.Exit(3)
		case !errors.Is(err, syscall.ENOENT):
			panic(err)
		}
	}
}

// orphan leaves a process in its own session.
func orphan() {
	_, _ = os.StartProcess("/proc/self/exe", []string{"orphan"}, &os.ProcAttr{
		Env: withRole(os.Environ(), "wait"), Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// hide leaves a process that has neither a session nor a marker of the job.
func hide() {
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "600"},
		&os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Pid)
}

// withRole sets one role in an environment. If a variable occurs twice, programs use the first.
func withRole(environ []string, role string) []string {
	environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, roleVariable+"=") })
	return append(environ, roleVariable+"="+role)
}

func TestMain(m *testing.M) {
	launcher.Main()
	// a rank that ran the tests would start further ranks
	if os.Getenv(roleVariable) == "" && os.Getenv(env.VarRank) != "" {
		fmt.Fprintln(os.Stderr, "a rank without", roleVariable)
		os.Exit(3)
	}
	switch os.Getenv(roleVariable) {
	case managerRole:
		beManager()
		return
	case managedRole:
		beManaged()
		return
	}
	if role := os.Getenv(roleVariable); role == agentRole {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // as in gorun agent
		if err := launcher.ServeAgent(os.Stdin, os.Stdout, launcher.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		return
	} else if role != "" {
		self, err := env.Self()
		if err != nil {
			panic(err)
		}
		roles[role](self)
		return
	}
	goleak.VerifyTestMain(m)
}

// buffer is a writer for several goroutines.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
	first chan struct{} // closed by the first write, if not nil
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil && b.Len() == 0 {
		close(b.first)
	}
	return b.Buffer.Write(p)
}

// onFirst returns a buffer that calls a function when a rank has printed.
func onFirst(do func()) *buffer {
	b := &buffer{first: make(chan struct{})}
	go func() {
		<-b.first
		do()
	}()
	return b
}

func specOf(role string, ranks int) launcher.Spec {
	return launcher.Spec{
		Apps:    []job.App{{Program: "/proc/self/exe"}},
		PerNode: job.Count{Kind: job.CountFixed, N: ranks},
		Environ: withRole(os.Environ(), role),
		Grace:   20 * time.Second,
	}
}

func run(t *testing.T, s launcher.Spec, options ...option) (*launcher.Result, *buffer, *buffer) {
	t.Helper()
	var stdout, stderr buffer
	options = append([]option{withOutput(&stdout, &stderr)}, options...)
	r, err := launcher.Run(t.Context(), own(t, s), with(options...))
	require.NoError(t, err)
	return r, &stdout, &stderr
}

// onNotice calls a function with the text of each notice.
func onNotice(receive func(text string)) option {
	return withNotices(func(n launcher.Notice) string { receive(n.Text); return "" })
}

// shownNotices writes each notice to standard error.
var shownNotices = withNotices(func(n launcher.Notice) string { return n.Text })

// own makes the test binary the program: /proc/self/exe would be gorun itself.
func own(t *testing.T, s launcher.Spec) launcher.Spec {
	exe, err := os.Executable()
	require.NoError(t, err)
	for i := range s.Apps {
		s.Apps[i].Program = exe
	}
	return s
}

func TestEnvironment(t *testing.T) {
	r, stdout, stderr := run(t, specOf("hello", 4))
	assert.Equal(t, 0, r.ExitCode)
	assert.Empty(t, launcher.Explain(r))
	assert.Empty(t, stderr.String())
	for rank := range 4 {
		assert.Contains(t, stdout.String(), fmt.Sprintf("hello from %d of 4\n", rank))
	}
}

// Arguments and variables reach ranks unchanged, even if they are not UTF-8.
func TestEveryByteArrives(t *testing.T) {
	odd := "\xff\xfe\n\"\\ \x01"
	s := specOf("bytes", 1)
	s.Apps[0].Args = []string{odd, ""}
	s.Environ = append(s.Environ, "LAUNCHER_TEST_BYTES="+odd)
	_, stdout, _ := run(t, s)
	assert.Equal(t, fmt.Sprintf("%q %q", []string{odd, ""}, odd), stdout.String())
}

func TestFirstFailure(t *testing.T) {
	r, _, stderr := run(t, specOf("fail", 3))
	assert.Equal(t, 17, r.ExitCode)
	assert.Equal(t, job.CauseRank, r.Cause)
	require.NotNil(t, r.First)
	assert.Equal(t, 1, r.First.Rank)
	assert.Contains(t, stderr.String(), "shard 1 is \x1b[31mempty\n", "a rank's own bytes pass")
	text := launcher.Explain(r)
	assert.Contains(t, text, "rank 1 failed first")
	assert.Contains(t, text, "shard 1 is ")
	assert.Contains(t, text, "2 ranks stopped by gorun: [0,2]")
	assert.NotContains(t, text, "\x1b", "and never reach our own messages")
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := launcher.Run(ctx, own(t, specOf("wait", 2)), with(withOutput(onFirst(cancel), &buffer{})))
	require.NoError(t, err)
	assert.Equal(t, job.CauseCancelled, r.Cause)
	assert.Equal(t, 143, r.ExitCode)
}

func TestForwardSignals(t *testing.T) {
	subscribed := make(chan chan<- os.Signal, 1)
	stdout := onFirst(func() { <-subscribed <- syscall.SIGINT })
	r, err := launcher.Run(t.Context(), own(t, specOf("wait", 2)), with(withOutput(stdout, &buffer{}),
		withSignals(func(signals chan<- os.Signal) { subscribed <- signals })))
	require.NoError(t, err)
	assert.Equal(t, 130, r.ExitCode)
	assert.Contains(t, launcher.Explain(r), "stopped by SIGINT")
}

func TestStall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := specOf("meet", 4)
	s.Store.Report = time.Second // rank 2 has ended by then
	var said string
	r, err := launcher.Run(ctx, own(t, s), with(withOutput(&buffer{}, &buffer{}),
		onNotice(func(text string) {
			if strings.HasPrefix(text, "no rendezvous progress ") {
				said = text
				cancel()
			}
		})))
	require.NoError(t, err)
	assert.Regexp(t, `^no rendezvous progress for \d+s: 2 of 4 ranks wait for "addresses/3"; `+
		`missing rank 2 \(pid \d+, ended with exit code 0\), rank 3 \(pid \d+, \w+, \d+ % CPU\)$`, said)
	require.NotNil(t, r.Stall)
	assert.Equal(t, []spec.StoreWait{{Rank: 0, Keys: []string{"addresses/3"}}, {Rank: 1, Keys: []string{"addresses/3"}}},
		r.Stall.Waiting)
	assert.Equal(t, "ended with exit code 0", r.Stall.Missing[0].State)
}

func TestRestarts(t *testing.T) {
	s := specOf("flaky", 2)
	s.Restarts = job.Restarts{Max: 3, Delay: -1}
	var said []string
	r, stdout, _ := run(t, s, onNotice(func(text string) {
		if strings.Contains(text, "restart") {
			said = append(said, text)
		}
	}))
	assert.Equal(t, 0, r.ExitCode)
	for attempt := range 3 {
		for rank := range 2 {
			if line := fmt.Sprintf("attempt %d: rank %d, found false\n", attempt, rank); attempt == 2 || rank == 1 {
				assert.Equal(t, 1, strings.Count(stdout.String(), line), line)
			}
		}
	}
	assert.NotContains(t, stdout.String(), "found true")
	require.Len(t, said, 2)
	assert.Regexp(t, `^rank 1 failed after \S+: exit code 3; restart 1 of 3$`, said[0])
	require.Len(t, r.Attempts, 2)
	assert.Equal(t, 4, r.Attempts[1].First.Code)
	assert.Empty(t, launcher.Explain(r), "the last attempt succeeded")
}

func TestRestartBudget(t *testing.T) {
	s := specOf("fail", 2)
	s.Restarts = job.Restarts{Max: 1, Delay: -1}
	r, _, _ := run(t, s)
	assert.Equal(t, 17, r.ExitCode)
	assert.Regexp(t, `(?m)^  before   attempt 0: rank 1 failed after \S+: exit code 17$`, launcher.Explain(r))
}

func TestCancelDuringRestartDelay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := specOf("fail", 2)
	s.Restarts = job.Restarts{Max: 1, Delay: time.Hour}
	r, err := launcher.Run(ctx, own(t, s), with(withOutput(&buffer{}, &buffer{}),
		onNotice(func(text string) {
			if strings.Contains(text, "restart 1 of 1 in 1h") {
				cancel()
			}
		})))
	require.NoError(t, err)
	assert.Equal(t, job.CauseCancelled, r.Cause)
	assert.Equal(t, 143, r.ExitCode)
}

// The notice of the end leaves no time for an attempt. The job goes on in the scheduler's queue. A scheduler may end
// the command that asks for that.
func TestNoticeWhileNoRanksRun(t *testing.T) {
	for attempts, ranks := range []string{"wait", "fail"} {
		s := specOf(ranks, 2)
		s.PreemptSignal, s.Restarts = "SIGUSR1", job.Restarts{Max: 1, Delay: time.Hour, OnCodes: []int{85}}
		s.Scheduler = &engine.Scheduler{Job: "job 7", Requeue: [][]string{{"true"}, {"sh", "-c", "kill $$"}}[attempts]}
		var signals chan<- os.Signal
		r, stdout, _ := run(t, s, withSignals(func(ch chan<- os.Signal) {
			if signals = ch; attempts == 0 {
				signals <- syscall.SIGUSR1
			}
		}), onNotice(func(text string) {
			if strings.Contains(text, "restart 1 of 1 in 1h") {
				signals <- syscall.SIGUSR1
			}
		}))
		assert.Empty(t, stdout.String())
		assert.Len(t, r.Attempts, attempts)
		assert.Regexp(t, `^gorun: preempted after \S+, while no ranks ran: job 7 is in the queue again$`,
			strings.TrimSpace(launcher.Explain(r)))
	}
}

func TestDeadlineDuringRestartDelay(t *testing.T) {
	s := specOf("fail", 2)
	s.Restarts = job.Restarts{Max: 1, Delay: time.Hour}
	s.Timeout = time.Second
	r, _, _ := run(t, s)
	assert.Equal(t, job.CauseTimeout, r.Cause)
	assert.Equal(t, job.ExitTimeout, r.ExitCode)
	assert.GreaterOrEqual(t, r.After, s.Timeout, "counted from the first start")
	assert.Regexp(t, `^gorun: timed out after \S+ \(--timeout\)
  before   attempt 0: rank 1 failed after \S+: exit code 17
  goodput  0 %, \S+ of \S+ lost
exit 124
$`, launcher.Explain(r))
}

// Each attempt has its own log directory.
func TestLogsOfAttempts(t *testing.T) {
	s := specOf("flaky", 2)
	s.Restarts = job.Restarts{Max: 3, Delay: -1}
	s.Output.LogDir, s.Output.Redirect = t.TempDir(), job.StreamMap{All: job.Stdout}
	r, _, _ := run(t, s)
	assert.Equal(t, 0, r.ExitCode)
	for attempt := range 3 {
		text, err := os.ReadFile(filepath.Join(r.LogDir, fmt.Sprintf("attempt_%d", attempt), "1", "stdout.log"))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("attempt %d: rank 1, found false\n", attempt), string(text))
	}
}

// A pipe at the path of PyTorch's error file must not delay the end.
func TestErrorFileIsPipe(t *testing.T) {
	r, _, _ := run(t, specOf("pipe", 1))
	assert.Equal(t, 3, r.ExitCode)
}

func TestHang(t *testing.T) {
	s := specOf("wait", 2)
	s.HangTimeout = 20 * time.Millisecond
	r, _, _ := run(t, s)
	assert.Equal(t, job.ExitTimeout, r.ExitCode)
	assert.Equal(t, job.CauseHang, r.Cause)
	require.NotNil(t, r.Hang)
	require.Len(t, r.Hang.Ranks, 2)
	assert.Equal(t, "ready", r.Hang.Ranks[1].LastLine)
	require.NotEmpty(t, r.Hang.Ranks[1].Stack)
	assert.Contains(t, r.Hang.Ranks[1].Stack[0], "[select (no cases)]")
	assert.Contains(t, launcher.Explain(r), "gorun: hang: no output and no rendezvous progress for ")
}

func TestDeadline(t *testing.T) {
	s := specOf("wait", 1)
	s.Timeout = 50 * time.Millisecond
	r, _, _ := run(t, s)
	assert.Equal(t, job.ExitTimeout, r.ExitCode)
}

// Stack traces at the deadline end the ranks. That is not a failure of a rank.
func TestStacksAtTheDeadline(t *testing.T) {
	for name, s := range map[string]launcher.Spec{"here": specOf("wait", 2), "on nodes": nodes("wait")} {
		t.Run(name, func(t *testing.T) {
			s.Timeout, s.Grace, s.StacksAtTimeout = time.Second, time.Second, true
			r, _, stderr := run(t, s, agents(t, nil), shownNotices)
			assert.Equal(t, job.CauseTimeout, r.Cause)
			assert.Nil(t, r.First)
			assert.Contains(t, stderr.String(), "stack traces at the deadline (--get-stack-traces):\n[0")
		})
	}
}

func TestStdin(t *testing.T) {
	for name, tc := range map[string]struct {
		edit job.StdinSpec
		want []string
	}{
		"rank 0":    {job.StdinSpec{}, []string{`0 read "typed"`, `1 read ""`}},
		"rank 1":    {job.StdinSpec{Rank: 1}, []string{`0 read ""`, `1 read "typed"`}},
		"both":      {job.StdinSpec{Kind: job.StdinSome, Ranks: []int{0, 1}}, []string{`0 read "typed"`, `1 read "typed"`}},
		"all ranks": {job.StdinSpec{Kind: job.StdinAll}, []string{`0 read "typed"`, `1 read "typed"`}},
		"none":      {job.StdinSpec{Kind: job.StdinNone}, []string{`0 read ""`, `1 read ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			_, err = w.WriteString("typed")
			require.NoError(t, err)
			require.NoError(t, w.Close())
			s := specOf("stdin", 2)
			s.Stdin = tc.edit
			_, stdout, _ := run(t, s, withStdin(r))
			for _, line := range tc.want {
				assert.Contains(t, stdout.String(), line)
			}
		})
	}
}

func TestMuchOutput(t *testing.T) {
	_, stdout, _ := run(t, specOf("flood", 3))
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	require.Len(t, lines, 3<<18)
	for _, l := range lines {
		require.Equal(t, "0123456789abcde", l)
	}
}

// A library is no subreaper: it finds the orphan by its marker.
func TestOrphans(t *testing.T) {
	s := specOf("orphan", 1)
	s.Grace = time.Millisecond
	r, _, _ := run(t, s)
	assert.Equal(t, 0, r.ExitCode)
	assert.Empty(t, r.Orphans)
	left, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, p := range left {
		environ, _ := os.ReadFile("/proc/" + p.Name() + "/environ")
		require.NotContains(t, string(environ), env.VarJob+"="+r.JobID)
	}
}

// A cgroup also finds an orphan without a marker, while the library's process may have other children.
func TestHiddenOrphans(t *testing.T) {
	testneeds.OwnCgroup(t)
	s := specOf("hide", 1)
	s.Grace = time.Millisecond
	r, out, _ := run(t, s)
	assert.Equal(t, 0, r.ExitCode)
	assert.Empty(t, r.Orphans)
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	require.NoError(t, err)
	assert.Eventually(t, func() bool { // another process must also reap it
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}, time.Minute, time.Millisecond)
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*launcher.Spec)
		code   int
		text   string
	}{
		"no such program": {func(s *launcher.Spec) { s.Apps[0].Program = "./nowhere" }, 127, "./nowhere"},
		"a directory":     {func(s *launcher.Spec) { s.Apps[0].Program = "/" }, 126, "/"},
		"no program":      {func(s *launcher.Spec) { s.Apps = nil }, 2, "no program"},
		"no rank":         {func(s *launcher.Spec) { s.PerNode.N = 0 }, 2, "at least 1"},
		"no address":      {func(s *launcher.Spec) { s.Store.Addr = "nowhere.invalid" }, 125, "nowhere.invalid"},
		"a bad port": {func(s *launcher.Spec) {
			s.Environ = []string{"MASTER_PORT=http"}
		}, 2, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			s := own(t, specOf("hello", 1))
			tc.change(&s)
			_, err := launcher.Run(t.Context(), s, with(withOutput(&buffer{}, &buffer{})))
			var e *launcher.Error
			require.True(t, errors.As(err, &e), "%v", err)
			assert.Equal(t, tc.code, e.Code)
			assert.Contains(t, err.Error(), tc.text)
		})
	}
}

func TestPlan(t *testing.T) {
	s := own(t, specOf("hello", 3))
	one, err := launcher.Plan(t.Context(), s, launcher.Options{})
	require.NoError(t, err)
	two, err := launcher.Plan(t.Context(), s, launcher.Options{})
	require.NoError(t, err)
	assert.Equal(t, one, two)
	assert.Len(t, one.Ranks, 3)
	assert.Equal(t, job.AtStart, one.Store.Port)
}
