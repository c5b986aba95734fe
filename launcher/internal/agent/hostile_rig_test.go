package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/env/plan"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// roleVariable makes the test binary an agent whose launcher is at descriptor 3.
const roleVariable = "AGENT_TEST_CONFIG"

// swapVariable makes it swap names until end-of-file on standard input.
const swapVariable = "AGENT_TEST_SWAP"

func TestMain(m *testing.M) {
	if process.EnterGuard() {
		return
	}
	if pattern, other, ok := strings.Cut(os.Getenv(swapVariable), "\n"); ok {
		stop := swap(pattern, other, sync.OnceFunc(func() { fmt.Println("swapped") }))
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
		return
	}
	if text := os.Getenv(roleVariable); text != "" {
		serveHostile(text)
		return
	}
	os.Exit(m.Run())
}

// victim describes an agent's command line.
type victim struct {
	Joined          bool
	TempDir, LogDir string
	Script          string // the sh script that each rank runs
}

// serveHostile runs the agent. Its final error goes to standard output, a panic to standard error.
func serveHostile(text string) {
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	_ = os.Unsetenv(roleVariable)
	conn, err := net.FileConn(os.NewFile(3, "head"))
	if err != nil {
		panic(err)
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	cfg := Config{TempDir: v.TempDir, Subreaper: true, Version: "test", Environ: os.Environ()}
	if v.Joined {
		cfg.Joined = &Joined{
			Programs: []spec.Command{{Name: "sh", Args: []string{"-c", v.Script}}}, Ranks: 2, LogDir: v.LogDir,
			Decides: plan.Decides, Accepts: plan.Accepts, Reports: plan.Sets,
		}
	}
	fmt.Println(Serve(wire.NewLink(reach.Queued(conn)), cfg))
}

// hostile is a launcher that another user started.
type hostile struct {
	t        *testing.T
	agent    *exec.Cmd
	conn     net.Conn
	link     *wire.Link
	said     said
	received chan wire.Frame
}

// said is the output of a process so far.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

func attack(t *testing.T, v victim, environ ...string) *hostile {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	h := &hostile{t: t, received: make(chan wire.Frame, 1<<10)}
	h.conn, err = net.FileConn(ours)
	require.NoError(t, err)
	h.link = wire.NewLink(h.conn)
	h.agent = exec.Command("/proc/self/exe")
	h.agent.Env = append(os.Environ(), append(environ, roleVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")...)
	h.agent.ExtraFiles, h.agent.Stdout, h.agent.Stderr = []*os.File{theirs}, &h.said, &h.said
	require.NoError(t, h.agent.Start())
	go func() {
		defer close(h.received)
		for {
			f, err := h.link.Read()
			if err != nil {
				return
			}
			f.Body = append([]byte{}, f.Body...)
			select {
			case h.received <- f:
			default: // no reader is waiting
			}
		}
	}()
	return h
}

// send sends a message to the agent, which may have closed the connection.
func (h *hostile) send(m wire.Message) { _ = h.link.Send(m) }

// await returns the next frame of a type, or false at the end of the connection.
func (h *hostile) await(want wire.Type) (wire.Frame, bool) {
	for f := range h.received {
		if f.Type == want {
			return f, true
		}
	}
	return wire.Frame{}, false
}

// end closes the connection and waits for the agent to end without a panic.
func (h *hostile) end() {
	h.t.Helper()
	_ = h.conn.Close()
	h.wait()
}

func (h *hostile) wait() {
	h.t.Helper()
	err := h.agent.Wait()
	_ = h.conn.Close()
	require.NoError(h.t, err, h.said.String())
	require.NotContains(h.t, h.said.String(), "panic")
}

// startOf returns a message that starts two ranks of a victim's program.
func startOf(v victim) *wire.Start {
	app := spec.App{Path: "/bin/sh", Argv: []string{"sh", "-c", v.Script}}
	id, err := process.NewJobID()
	if err != nil {
		panic(err)
	}
	return &wire.Start{
		JobID: id, Apps: []spec.App{app}, Ranks: []wire.Row{
			{Process: spec.Process{Rank: 0}},
			{Process: spec.Process{Rank: 1, LocalRank: 1}},
		},
		Stdio: wire.Stdio{Direct: -1}, Window: 1 << 20, ErrorFiles: true, Key: []byte("key"),
	}
}

// hello returns the first message of a launcher.
func hello(v victim) *wire.Hello {
	return &wire.Hello{Version: wire.Version, Programs: []spec.Command{{Name: "sh", Args: []string{"-c", v.Script}}}}
}

// run makes the agent start its ranks, and end the job when they have ended.
func (h *hostile) run(v victim, start *wire.Start) {
	h.send(hello(v))
	h.send(start)
	for ended := 0; ended < len(start.Ranks); {
		f, ok := <-h.received
		if !ok {
			return
		}
		switch f.Type {
		case wire.TypeStartFailed:
			ended = len(start.Ranks)
		case wire.TypeEnded:
			var e wire.Ended
			require.NoError(h.t, f.Decode(&e))
			ended += len(e.Ranks)
		}
	}
	h.send(&wire.Cleanup{})
	_, _ = h.await(wire.TypeCleanedUp)
}

// canary is a directory of the user with files that must not change.
type canary struct{ dir, before string }

func newCanary(t *testing.T, dir string) canary {
	for _, name := range []string{"a/b/file", "a/key", "error.0.json", "key", "attempt_0/0/stdout.log"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("precious "+name), 0o600))
	}
	return canary{dir, listing(t, dir)}
}

func (c canary) check(t *testing.T) {
	t.Helper()
	assert.Equal(t, c.before, listing(t, c.dir))
}

// listing returns the names and contents of all files in a directory.
func listing(t *testing.T, dir string) string {
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			fmt.Fprintln(&b, p)
			return err
		}
		text, err := os.ReadFile(p)
		fmt.Fprintf(&b, "%s: %s\n", p, text)
		return err
	}))
	return b.String()
}

// swap repeatedly exchanges a path that matches a pattern with another path, until stop is called. It calls worked
// after an exchange.
func swap(pattern, other string, worked func()) (stop func()) {
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-over:
				return
			default:
			}
			names, _ := filepath.Glob(pattern)
			for _, name := range names {
				for range 2 {
					if unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE) == nil {
						worked()
					}
				}
			}
		}
	}()
	return func() { close(over); <-stopped }
}

// swapAs runs swap in a process of another user. worked waits for the first exchange.
func swapAs(t *testing.T, uid uint32, pattern, other string) (worked, stop func()) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), swapVariable+"="+pattern+"\n"+other)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	worked = sync.OnceFunc(func() {
		_, err := io.ReadFull(out, make([]byte, len("swapped\n")))
		require.NoError(t, err)
	})
	return worked, func() {
		_ = in.Close()
		assert.NoError(t, c.Wait())
	}
}

// isAlive reports whether a process that this test has started is running.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// peak returns the peak memory of a process in bytes.
func peak(t *testing.T, pid int) (size int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &size); n == 1 {
			return size << 10
		}
	}
	return 0
}
