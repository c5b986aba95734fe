package launcher_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/launcher/quarantine"
	"gorun/launcher/registry"
)

// agentRole makes the test binary an agent.
const agentRole = "agent"

// agentProcess is an agent on this host that communicates over pipes.
type agentProcess struct {
	io.WriteCloser
	io.Reader
	cmd *exec.Cmd
	// wait waits until the process has ended. Several goroutines can call it.
	wait func() error
}

func (p *agentProcess) Close() error {
	_ = p.WriteCloser.Close()
	return p.wait()
}

// agents starts an agent for each host and records the processes.
func agents(t *testing.T, started map[string]*agentProcess) option {
	return launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		return startAgent(started, h)
	})
}

var agentsLock sync.Mutex

func startAgent(started map[string]*agentProcess, h hosts.Host) (*agentProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = withRole(os.Environ(), agentRole)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &agentProcess{in, out, cmd, sync.OnceValue(cmd.Wait)}
	agentsLock.Lock()
	defer agentsLock.Unlock()
	if started != nil {
		started[h.Name] = p
	}
	return p, cmd.Start()
}

// muted is an agent that gets no more input after a given time, and no end of the link either.
type muted struct {
	*agentProcess
	from <-chan struct{}
}

func (m *muted) Write(p []byte) (int, error) {
	select {
	case <-m.from:
		return len(p), nil
	default:
		return m.agentProcess.Write(p)
	}
}

func (m *muted) Close() error {
	select {
	case <-m.from: // as on a cut network: only the agent's lease can end it
		return m.wait()
	default:
		return m.agentProcess.Close()
	}
}

func onHosts(s launcher.Spec, names ...string) launcher.Spec {
	s.Exports = append(s.Exports, job.Export{Name: roleVariable}) // other hosts do not inherit it
	for _, name := range names {
		s.Hosts = append(s.Hosts, hosts.Host{Name: name, Slots: 2, From: "-H " + name})
	}
	return s
}

func TestSeveralNodes(t *testing.T) {
	s := onHosts(specOf("place", 2), "node1", "node2", "node3")
	result, out, errs := run(t, s, agents(t, nil))
	require.Zero(t, result.ExitCode, "%s\n%s", errs, launcher.Explain(result))
	var want []string
	for rank := range 6 {
		want = append(want, fmt.Sprintf("rank %d of 6, local rank %d of 2 on node %d of 3", rank, rank%2, rank/2))
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	assert.Equal(t, want, got)
}

func init() {
	roles["place"] = func(r env.Rank) {
		fmt.Printf("rank %d of %d, local rank %d of %d on node %d of %d\n", r.Rank, r.WorldSize, r.LocalRank,
			r.LocalWorldSize, r.Node, r.NumNodes)
	}
}

// nodes returns a job of two nodes with two ranks each.
func nodes(role string) launcher.Spec { return onHosts(specOf(role, 2), "node1", "node2") }

func TestKilledAgentEndsJob(t *testing.T) {
	started := map[string]*agentProcess{}
	s := nodes("wait")
	s.Grace = time.Second
	out := onFirst(func() { _ = started["node2"].cmd.Process.Kill() })
	result, err := launcher.Run(t.Context(), own(t, s), with(agents(t, started), withOutput(out, io.Discard)))
	require.NoError(t, err)
	assert.Equal(t, job.ExitLauncher, result.ExitCode)
	assert.Equal(t, job.CauseNode, result.Cause)
	assert.Contains(t, launcher.Explain(result), "node2 is lost")
}

func init() {
	roles["wait at first"] = func(r env.Rank) {
		fmt.Printf("rank %d, restart %d\n", r.Rank, r.Attempt)
		if r.Attempt == 0 {
			roles["wait"](r)
		}
	}
}

func TestRestartAfterKilledAgent(t *testing.T) {
	for name, reachable := range map[string]bool{"reached again": true, "out of reach": false} {
		t.Run(name, func(t *testing.T) {
			started := map[string]*agentProcess{}
			s := nodes("wait at first")
			s.Grace, s.Restarts = time.Second, job.Restarts{Max: 1, Delay: -1}
			killed := make(chan struct{})
			out := onFirst(func() {
				close(killed)
				_ = started["node2"].cmd.Process.Kill()
			})
			reach := launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
				select {
				case <-killed:
					if !reachable {
						return nil, &launcher.Error{Code: job.ExitLauncher, Text: "connect: it does not answer"}
					}
				default:
				}
				return startAgent(started, h)
			})
			result, err := launcher.Run(t.Context(), own(t, s), with(reach, withOutput(out, io.Discard)))
			require.NoError(t, err)
			if !reachable {
				assert.Equal(t, job.ExitLauncher, result.ExitCode)
				assert.Contains(t, launcher.Explain(result),
					"node2 is lost: its connection ended\ngorun: no restart: node2: connect: it does not answer\n")
				assert.Empty(t, result.Attempts)
				return
			}
			require.Zero(t, result.ExitCode, launcher.Explain(result))
			for rank := range 4 {
				assert.Contains(t, out.String(), fmt.Sprintf("rank %d, restart 1\n", rank))
			}
			require.Len(t, result.Attempts, 1)
			assert.Equal(t, "node2 is lost: its connection ended", result.Attempts[0].Text)
		})
	}
}

// frozen is an agent whose answers are delayed.
type frozen struct {
	*agentProcess
	from <-chan struct{}
	over chan struct{}
	once *sync.Once
}

func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.agentProcess.Read(p)
	select {
	case <-f.from:
		<-f.over
		return 0, io.ErrClosedPipe
	default:
		return n, err
	}
}

func (f *frozen) Close() error {
	f.once.Do(func() { close(f.over) })
	_ = f.WriteCloser.Close()
	_ = f.wait()
	return nil
}

// A job whose hosts are in quarantine but for this one goes on to look for them.
func TestAloneBesideQuarantine(t *testing.T) {
	s, file := specOf("wait", 1), filepath.Join(t.TempDir(), "hosts.json")
	require.NoError(t, quarantine.Add(file, []string{"node2"}, "it failed", time.Now().Add(time.Hour), time.Now()))
	s.Hosts, s.MinNodes = []hosts.Host{{Name: "localhost", Here: true}, {Name: "node2"}}, 1
	ctx, cancel := context.WithCancel(t.Context())
	reach := launcher.WithReach(func(context.Context, hosts.Host) (io.ReadWriteCloser, error) {
		cancel()
		return nil, io.EOF
	})
	result, err := launcher.Run(ctx, own(t, s), with(reach, withOutput(io.Discard, io.Discard),
		func(o *launcher.Options) { o.Quarantine = file }))
	require.NoError(t, err)
	assert.Equal(t, job.CauseCancelled, result.Cause)
}

func TestSilentNode(t *testing.T) {
	started := map[string]*agentProcess{}
	s := nodes("wait")
	s.Grace, s.Heartbeat, s.Restarts = time.Second, 400*time.Millisecond, job.Restarts{Max: 1}
	var out buffer
	out.first = make(chan struct{})
	frozenReach := launcher.WithReach(func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		p, err := startAgent(started, h)
		if err != nil || h.Name != "node2" {
			return p, err
		}
		return &frozen{p, out.first, make(chan struct{}), new(sync.Once)}, nil
	})
	result, err := launcher.Run(t.Context(), own(t, s), with(frozenReach, withOutput(&out, io.Discard)))
	require.NoError(t, err)
	assert.Equal(t, job.CauseNode, result.Cause)
	assert.Contains(t, launcher.Explain(result), "node2 is lost: silent for 2s")
	assert.Empty(t, result.Attempts, "its ranks may still run")
}

func TestAgentEndsWithoutHead(t *testing.T) {
	started := map[string]*agentProcess{}
	s := nodes("wait")
	s.Heartbeat = 400 * time.Millisecond
	var out buffer
	out.first = make(chan struct{})
	mute := launcher.WithReach(func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		p, err := startAgent(started, h)
		return &muted{p, out.first}, err
	})
	result, err := launcher.Run(t.Context(), own(t, s), with(mute, withOutput(&out, io.Discard)))
	require.NoError(t, err)
	assert.Equal(t, job.CauseNode, result.Cause)
	for _, p := range started {
		_ = p.wait() // the launcher does not: it has dropped the agent
		assert.Equal(t, 1, p.cmd.ProcessState.ExitCode(), "an agent reports a long silence")
	}
}

// evidence returns an option that collects evidence, and the texts of its files.
func evidence() (option, map[string]string) {
	files := map[string]string{}
	return func(o *launcher.Options) {
		o.Evidence = func() func(registry.File) {
			return func(f registry.File) { files[f.Name] = string(f.Text) }
		}
	}, files
}

func TestFirstFailureOfNodes(t *testing.T) {
	collect, files := evidence()
	result, _, _ := run(t, nodes("fail"), agents(t, nil), collect)
	assert.Contains(t, files["stacks.txt"], "[1] ")
	assert.Contains(t, files["node1-core-files.txt"], "kernel.core_pattern is ")
	assert.Contains(t, files, "node2-kernel-log.txt")
	assert.Contains(t, files, "", "complete at the end of the job")
	assert.Equal(t, 17, result.ExitCode)
	assert.Equal(t, 1, result.First.Rank)
	assert.Contains(t, launcher.Explain(result), "node1")
}

func TestRestartsOverNodes(t *testing.T) {
	s := nodes("flaky")
	s.Restarts = job.Restarts{Max: 3, Delay: -1}
	result, out, _ := run(t, s, agents(t, nil))
	require.Zero(t, result.ExitCode, out.String())
	for rank := range 4 { // some of the other ranks ended before they could print it
		assert.Contains(t, out.String(), fmt.Sprintf("attempt 2: rank %d, found false\n", rank))
	}
}

func TestStdinOfRemoteRank(t *testing.T) {
	in, w, err := os.Pipe()
	require.NoError(t, err)
	go func() {
		_, _ = w.WriteString("one line\n")
		_ = w.Close()
	}()
	s := nodes("stdin")
	s.Stdin = job.StdinSpec{Rank: 3}
	result, out, _ := run(t, s, agents(t, nil), withStdin(in))
	require.Zero(t, result.ExitCode)
	assert.Contains(t, out.String(), `3 read "one line\n"`)
	assert.Contains(t, out.String(), `0 read ""`)
}

func TestMuchOutputOfNodes(t *testing.T) {
	result, out, _ := run(t, nodes("flood"), agents(t, nil))
	require.Zero(t, result.ExitCode)
	assert.Equal(t, 4<<22, out.Len())
}

func TestMergeErrorsOfNodes(t *testing.T) {
	s := nodes("hello")
	s.Apps[0].Program = "./no-such-program"
	_, err := launcher.Run(t.Context(), s, with(agents(t, nil)))
	require.ErrorContains(t, err, "no-such-program")
	assert.Equal(t, 1, strings.Count(err.Error(), "no-such-program"), err)
}

func TestHangOfNodes(t *testing.T) {
	s := nodes("wait")
	s.HangTimeout, s.Grace = time.Second, time.Second
	collect, files := evidence()
	result, _, _ := run(t, s, agents(t, nil), collect)
	assert.Equal(t, job.ExitTimeout, result.ExitCode)
	assert.Contains(t, files["stacks.txt"], "last line: ready")
	assert.Contains(t, files["last-lines.txt"], "[3] ready\n")
	assert.Contains(t, files, "node2-core-files.txt")
	require.NotNil(t, result.Hang)
	require.Len(t, result.Hang.Ranks, 4)
	for rank, r := range result.Hang.Ranks {
		assert.Equal(t, rank, r.Rank)
		assert.Equal(t, "ready", r.LastLine)
	}
}

// The absent ranks 2 and 3 are on another node than the store.
func TestStallOfNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := nodes("meet")
	s.Store.Report = time.Second
	var said string
	_, err := launcher.Run(ctx, own(t, s), with(agents(t, nil), withOutput(&buffer{}, &buffer{}),
		onNotice(func(text string) {
			if strings.HasPrefix(text, "no rendezvous progress ") {
				said = text
				cancel()
			}
		})))
	require.NoError(t, err)
	assert.Regexp(t,
		`2 of 4 ranks wait for "addresses/3"; missing rank 2 \(pid \d+, ended on node2 with exit code 0\), rank 3 `+
			`\(pid \d+, on node2\)$`,
		said)
}

func TestHeadLogs(t *testing.T) {
	s := nodes("place")
	s.RunID = "run"
	s.Output = job.OutputSpec{
		LogDir: t.TempDir(), LogsToHead: true,
		Redirect: job.StreamMap{Ranks: map[int]job.Streams{0: job.Stdout}},
		Tee:      job.StreamMap{Ranks: map[int]job.Streams{1: job.Stdout}},
	}
	result, out, errs := run(t, s, agents(t, nil))
	require.Zero(t, result.ExitCode, errs.String())
	for rank := range 4 {
		want := fmt.Sprintf("rank %d of 4, local rank %d of 2 on node %d of 2\n", rank, rank%2, rank/2)
		files, err := filepath.Glob(filepath.Join(s.Output.LogDir, "run_*", fmt.Sprintf("node%d", 1+rank/2), "attempt_0",
			fmt.Sprint(rank%2), "stdout.log"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
		assert.Equal(t, rank%2 == 1, strings.Contains(out.String(), want), "local rank 1 is shown, too")
	}
}

func init() {
	roles["stdout's kind"] = func(r env.Rank) {
		info, err := os.Stdout.Stat()
		if err != nil {
			panic(err)
		}
		fmt.Printf("rank %d: %v\n", r.Rank, info.Mode().IsRegular())
	}
}

// Nodes with a shared file system would truncate each other's files.
func TestSharedFileIsWrittenByHead(t *testing.T) {
	for pattern, direct := range map[string]bool{"all": false, "of %p": true} {
		s := nodes("stdout's kind")
		dir := t.TempDir()
		s.Output = job.OutputSpec{StdoutFile: filepath.Join(dir, pattern), Redirect: job.StreamMap{All: job.Stdout}}
		result, _, errs := run(t, s, agents(t, nil))
		require.Zero(t, result.ExitCode, errs.String())
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		var lines []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
		}
		var want []string
		for rank := range 4 {
			want = append(want, fmt.Sprintf("rank %d: %v", rank, direct))
		}
		assert.ElementsMatch(t, want, lines, pattern)
	}
	s := nodes("hello")
	s.Output = job.OutputSpec{StdoutFile: "/dev/full", Redirect: job.StreamMap{All: job.Stdout}}
	_, _, errs := run(t, s, agents(t, nil), shownNotices)
	assert.Contains(t, errs.String(), "log /dev/full and 1 more are incomplete")
}
