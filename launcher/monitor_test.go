package launcher_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/ras/rastest"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

func init() {
	roles["talk"] = talk
	roles["pour"] = pour
	roles["again"] = again
}

// talk prints a terminal control sequence, begins another line and waits.
func talk(r env.Rank) {
	fmt.Printf("first of %d\n\x1b[31msecond\x07\n", r.Rank)
	fmt.Fprintf(os.Stderr, "begun")
	select {}
}

// pour prints 64 MiB on request.
func pour(env.Rank) {
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin)
	line := strings.Repeat("0123456789abcde\n", 1<<12)
	for range 1 << 10 {
		fmt.Print(line)
	}
}

// again fails once, on request.
func again(r env.Rank) {
	fmt.Printf("attempt %d\n", r.Attempt)
	if r.Attempt == 0 {
		_, _ = io.ReadAll(os.Stdin)
		fmt.Print("half a line")
		os.Exit(7)
	}
	select {}
}

// listed is a running job that answers queries.
type listed struct {
	registry.Handle
	place    string
	out, err *buffer
	result   func() *launcher.Result
}

// list starts a job and waits until the registry lists it.
func list(t *testing.T, s launcher.Spec, options ...option) *listed {
	t.Helper()
	l := &listed{place: t.TempDir(), out: &buffer{}, err: &buffer{}}
	options = append([]option{withOutput(l.out, l.err), func(o *launcher.Options) { o.Registry = []string{l.place} }},
		options...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var result *launcher.Result
	var failed error
	s = own(t, s)
	go func() {
		defer close(ended)
		result, failed = launcher.Run(ctx, s, with(options...))
	}()
	l.result = sync.OnceValue(func() *launcher.Result {
		<-ended
		require.NoError(t, failed)
		return result
	})
	t.Cleanup(func() { cancel(); <-ended })
	require.Eventually(t, func() bool {
		found := registry.Find([]string{l.place})
		if len(found) == 1 {
			l.Handle = found[0]
		}
		return len(found) == 1
	}, time.Minute, time.Millisecond)
	return l
}

func (l *listed) ask(t *testing.T, q registry.Request) *registry.Response {
	t.Helper()
	a, err := l.Do(t.Context(), q)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// job waits until the job reports the expected state.
func (l *listed) job(t *testing.T, expected func(registry.Job) bool) (j registry.Job) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		j, _, err = registry.Get[registry.Job](t.Context(), l.Handle, registry.Request{Kind: registry.RanksRequest})
		require.NoError(t, err)
		return expected(j)
	}, time.Minute, 10*time.Millisecond, "%v", &j)
	return j
}

// lines returns the next lines of the logs, as rank/stream/text.
func lines(t *testing.T, a *registry.Response, enough func([]string) bool) (all []string, last registry.Logs) {
	t.Helper()
	for !enough(all) {
		var logs registry.Logs
		require.NoError(t, a.Next(&logs))
		for _, line := range logs.Lines {
			all = append(all, fmt.Sprintf("%d/%d/%s", line.Rank, line.Stream, line.Text))
		}
		if logs.Over || logs.Dropped {
			return all, logs
		}
		last = logs
	}
	return all, last
}

func all([]string) bool { return false }

// printedByTalk returns the number of bytes that a rank of talk prints.
func printedByTalk(rank int) int64 {
	return int64(len(fmt.Sprintf("first of %d\n\x1b[31msecond\x07\nbegun", rank)))
}

func allTalk(ranks int) func(registry.Job) bool {
	return func(j registry.Job) bool {
		for _, r := range j.Ranks {
			// agents report counters, which may be older than the last line
			if r.Last != "begun" || r.PID == 0 || r.CPU == nil || r.Output == nil || *r.Output < printedByTalk(r.Rank) {
				return false
			}
		}
		return len(j.Ranks) == ranks
	}
}

func TestListedJob(t *testing.T) {
	s := specOf("talk", 2)
	s.Apps[0].Args = []string{"--lr", "0.1"}
	l := list(t, s)
	j := l.job(t, allTalk(2))
	assert.Equal(t, []any{"running", 2, 2, os.Getpid(), []string{"--lr", "0.1"}},
		[]any{j.State, j.NumRanks, j.Running, j.PID, j.Args})
	r := j.Ranks[1]
	assert.Equal(t, []any{1, true}, []any{r.Rank, r.Here})
	assert.Greater(t, *r.Memory, int64(1<<20))
	assert.Equal(t, printedByTalk(1), *r.Output)
	assert.Nil(t, r.Code)

	got, last := lines(t, l.ask(t, registry.Request{Kind: registry.LogsRequest, Rank: new(1)}), all)
	assert.Equal(t, []string{"1/1/first of 1", "1/1/second^G", "1/2/begun"}, got)
	assert.True(t, last.Over)
	got, last = lines(t, l.ask(t, registry.Request{Kind: registry.LogsRequest, Rank: new(9)}), all)
	assert.Empty(t, got)
	assert.Equal(t, "the job has no rank 9", last.Error)

	w, _, err := registry.Get[registry.Reply](t.Context(), l.Handle, registry.Request{Kind: registry.StacksRequest})
	require.NoError(t, err)
	assert.Contains(t, strings.Join(w.Lines, "\n"), "[0-1]")
	assert.Contains(t, w.Lines[0], "last line: begun")
	w, _, err = registry.Get[registry.Reply](t.Context(), l.Handle, registry.Request{Kind: "riddle"})
	require.NoError(t, err)
	assert.Contains(t, w.Error, "riddle")

	follow := l.ask(t, registry.Request{Kind: registry.LogsRequest, Follow: true, Rank: new(0)})
	_, _ = lines(t, follow, func(all []string) bool { return len(all) >= 2 })
	stop := l.ask(t, registry.Request{Kind: registry.StopRequest, Signal: syscall.SIGINT, Grace: new(time.Duration)})
	require.NoError(t, stop.Next(&w))
	assert.False(t, w.Whole, "this process goes on")
	assert.ErrorIs(t, stop.Next(&w), io.EOF)
	assert.Empty(t, registry.Find([]string{l.place}), "whoever waited for the end knows that it has come")
	got, last = lines(t, follow, all)
	assert.Equal(t, []string{"0/2/begun"}, got, "the line that was not ended")
	assert.True(t, last.Over)
	assert.Equal(t, job.CauseSignal, l.result().Cause)
	left, err := os.ReadDir(l.place)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A stop request accepts only signals that end a job gracefully.
func TestStopByUnsuitableSignal(t *testing.T) {
	l := list(t, specOf("wait", 1))
	w, _, err := registry.Get[registry.Reply](t.Context(), l.Handle,
		registry.Request{Kind: registry.StopRequest, Signal: syscall.SIGUSR1})
	require.NoError(t, err)
	assert.Contains(t, w.Error, "does not stop a job")
	assert.Equal(t, 1, l.job(t, func(registry.Job) bool { return true }).Running)
}

func TestListedOnOtherHosts(t *testing.T) {
	l := list(t, onHosts(specOf("talk", 2), "node1", "node2"), agents(t, nil))
	j := l.job(t, allTalk(4))
	assert.Len(t, j.Hosts, 2)
	assert.False(t, j.Ranks[3].Here)
	assert.Empty(t, j.Silent)
	w, _, err := registry.Get[registry.Reply](t.Context(), l.Handle, registry.Request{
		Kind: registry.StacksRequest,
		Rank: new(3),
	})
	require.NoError(t, err)
	assert.Contains(t, w.Lines[0], "[3]")
	a := l.ask(t, registry.Request{Kind: registry.StopRequest})
	require.NoError(t, a.Next(&w))
	assert.ErrorIs(t, a.Next(&w), io.EOF)
	assert.Equal(t, 143, l.result().ExitCode)
}

// askNCCL queries a job in which NCCL's RAS should listen at an address.
func askNCCL(t *testing.T, s launcher.Spec, addr string, options ...option) registry.NCCL {
	s.Exports = append(s.Exports, job.Export{Name: "NCCL_RAS_ADDR", Value: addr, HasValue: true})
	l := list(t, s, options...)
	n, _, err := registry.Get[registry.NCCL](t.Context(), l.Handle, registry.Request{Kind: registry.NCCLRequest})
	require.NoError(t, err)
	assert.Equal(t, []any{l.ID, addr}, []any{n.ID, n.Addr})
	return n
}

func TestNCCLQuery(t *testing.T) {
	behind, err := os.ReadFile("internal/ras/testdata/behind.json")
	require.NoError(t, err)
	oneHost := func() launcher.Spec { return specOf("talk", 4) }
	for name, tc := range map[string]struct {
		spec    func() launcher.Spec
		answer  string
		options []option
		want    []string
	}{
		"one is behind": {
			oneHost, string(behind), nil,
			[]string{"NCCL 2.30.7, 1 communicator", "rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42"},
		},
		"from several hosts": {
			func() launcher.Spec {
				return onHosts(specOf("talk", 2), "node1", "node2")
			}, string(behind),
			[]option{agents(t, nil)},
			[]string{"NCCL 2.30.7, 1 communicator", "rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42"},
		},
		"nobody has begun one": {
			oneHost, `{"nccl_version": "2.30.7\u001b[2J", "communicators": []}`, nil,
			[]string{"NCCL 2.30.7^[[2J, 0 communicators"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := rastest.Server{JSON: tc.answer}
			n := askNCCL(t, tc.spec(), server.Start(t), tc.options...)
			assert.Empty(t, n.Error)
			assert.Equal(t, tc.want, n.Lines)
			assert.Empty(t, n.Silent)
			assert.Contains(t, string(n.Status), `"version":"2.30.7`)
			assert.Positive(t, server.Asked.Load())
		})
	}
}

func TestNCCLQueryErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	n := askNCCL(t, specOf("talk", 1), addr)
	assert.Equal(t, "NCCL at "+addr+
		": no rank listens there: no rank has started NCCL, or NCCL is older than 2.24 (RCCL has no such port), "+
		"or the program sets NCCL_RAS_ADDR itself", n.Error)
	assert.Empty(t, n.Lines)
	assert.Empty(t, n.Status)

	s := specOf("talk", 1)
	s.Exports = append(s.Exports, job.Export{Name: "NCCL_RAS_ENABLE", Value: "0", HasValue: true})
	listed := list(t, s)
	n, _, err = registry.Get[registry.NCCL](t.Context(), listed.Handle, registry.Request{Kind: registry.NCCLRequest})
	require.NoError(t, err)
	assert.Equal(t, "no rank on this node serves NCCL's status: NCCL_RAS_ENABLE is 0, or the node has no ranks", n.Error)
	assert.Empty(t, n.Addr)
}

// deaf is an agent that ignores its input for a while.
type deaf struct {
	*agentProcess
	now *atomic.Bool
}

func (d deaf) Write(p []byte) (int, error) {
	if d.now.Load() {
		return len(p), nil
	}
	return d.agentProcess.Write(p)
}

// A host that does not answer does not delay status queries.
func TestSilentHost(t *testing.T) {
	var mute atomic.Bool
	l := list(t, onHosts(specOf("talk", 2), "node1", "node2"),
		launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
			p, err := startAgent(nil, h)
			if h.Name == "node2" {
				return deaf{p, &mute}, err
			}
			return p, err
		}))
	l.job(t, allTalk(4))
	mute.Store(true)
	defer mute.Store(false)
	j := l.job(t, func(j registry.Job) bool { return len(j.Silent) > 0 })
	assert.Equal(t, []string{"node2"}, j.Silent)
	assert.NotNil(t, j.Ranks[0].CPU)
	assert.Nil(t, j.Ranks[3].CPU)
}

// A job that waits for its next attempt is listed as one job. A follower of log files continues with the files of the
// next attempt.
func TestListedRestart(t *testing.T) {
	for name, redirect := range map[string]job.Streams{"shown": 0, "into files": 3} {
		t.Run(name, func(t *testing.T) {
			in, feed, err := os.Pipe()
			require.NoError(t, err)
			defer in.Close()
			s := specOf("again", 1)
			s.Restarts = job.Restarts{Max: 1, Delay: time.Second}
			if redirect != 0 {
				s.Output.LogDir, s.Output.Redirect.All = t.TempDir(), redirect
			}
			l := list(t, s, withStdin(in))
			a := l.ask(t, registry.Request{Kind: registry.LogsRequest, Follow: true})
			got, _ := lines(t, a, func(all []string) bool { return len(all) > 0 })
			require.NoError(t, feed.Close())
			l.job(t, func(j registry.Job) bool { return j.State == "restarting" })
			more, _ := lines(t, a, func(all []string) bool { return len(all) > 1 })
			assert.Equal(t, []string{"0/1/attempt 0", "0/1/half a line", "0/1/attempt 1"}, append(got, more...))
			assert.Equal(t, "running", l.job(t, func(j registry.Job) bool { return j.Attempt == 1 }).State)
			assert.Len(t, registry.Find([]string{l.place}), 1)
		})
	}
}

// A follower that does not read never blocks the output of ranks.
func TestStalledFollower(t *testing.T) {
	in, feed, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	l := list(t, specOf("pour", 1), withStdin(in), withOutput(io.Discard, io.Discard))
	a := l.ask(t, registry.Request{Kind: registry.LogsRequest, Follow: true})
	var first registry.Logs
	require.NoError(t, a.Next(&first))
	require.NoError(t, feed.Close())
	require.Zero(t, l.result().ExitCode)
	for err == nil {
		var logs registry.Logs
		if err = a.Next(&logs); err == nil && logs.Over {
			t.Fatal("it was 64 MiB behind, and has read them all")
		}
		if logs.Dropped {
			return
		}
	}
	assert.ErrorIs(t, err, io.EOF, "the client was dropped, as it did not read")
}

// Output that goes to files is read from these files.
func TestListedLogFiles(t *testing.T) {
	s := specOf("talk", 1)
	s.Output.LogDir = t.TempDir()
	s.Output.Redirect = job.StreamMap{All: job.Streams(3)}
	l := list(t, s)
	l.job(t, allTalk(1))
	files, err := filepath.Glob(filepath.Join(s.Output.LogDir, "*", "attempt_0", "0", "std*.log"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	a := l.ask(t, registry.Request{Kind: registry.LogsRequest, Follow: true})
	got, _ := lines(t, a, func(all []string) bool { return len(all) > 1 })
	assert.Equal(t, []string{"0/1/first of 0", "0/1/second^G"}, got)
	f, err := os.OpenFile(files[0], os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(" and more\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got, _ = lines(t, a, func(all []string) bool { return len(all) > 0 })
	assert.Equal(t, []string{"0/2/begun and more"}, got)
}

// A file that ranks share is shown once.
func TestListedSharedLogFile(t *testing.T) {
	s := specOf("talk", 2)
	s.Output.StdoutFile, s.Output.Redirect = filepath.Join(t.TempDir(), "out.txt"), job.StreamMap{All: 1}
	l := list(t, s)
	l.job(t, allTalk(2))
	got, _ := lines(t, l.ask(t, registry.Request{Kind: registry.LogsRequest}), all)
	assert.ElementsMatch(t, []string{
		"0/1/first of 0", "0/1/first of 1", "0/1/second^G", "0/1/second^G", "0/2/begun",
		"1/2/begun",
	}, got)
}

// A job runs normally if the registry directory cannot be created.
func TestUnusableRegistry(t *testing.T) {
	var notices strings.Builder
	r, out, _ := run(t, specOf("hello", 1), func(o *launcher.Options) { o.Registry = []string{"/proc/self", "/no/such"} },
		onNotice(func(text string) { fmt.Fprintln(&notices, text) }))
	require.Zero(t, r.ExitCode)
	assert.Equal(t, "hello from 0 of 1\n", out.String())
}
