package agent

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/placement"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// A process that can write to the temporary directory replaces the agent's private directory with another directory
// of the user, or with a link to one. Jobs start and end meanwhile. No file in the other directory is removed or
// changed.
func TestNothingOfTheUsersIsRemovedForAHead(t *testing.T) {
	for name, makeOther := range map[string]func(t *testing.T, canary, other string) error{
		"link":      func(_ *testing.T, canary, other string) error { return os.Symlink(canary, other) },
		"directory": func(_ *testing.T, canary, other string) error { return os.Rename(canary, other) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v := victim{Joined: true, TempDir: filepath.Join(dir, "temp"), Script: "exit 3"}
			require.NoError(t, os.Mkdir(v.TempDir, 0o777))
			home, other := filepath.Join(dir, "home"), filepath.Join(dir, "other")
			before := newCanary(t, home).before
			require.NoError(t, makeOther(t, home, other))
			stop := swap(filepath.Join(v.TempDir, "gorun-*"), other, func() {})
			for range 20 {
				h := attack(t, v)
				h.run(v, startOf(v))
				h.end()
			}
			stop()
			if name == "directory" { // wherever it is now
				require.NoError(t, os.Rename(parentOf(t, dir, "attempt_0"), home))
			}
			assert.Equal(t, before, listing(t, home))
		})
	}
}

// parentOf returns the directory that contains an entry of this name.
func parentOf(t *testing.T, dir, name string) (path string) {
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if filepath.Base(p) == name {
			path = filepath.Dir(p)
		}
		return err
	}))
	require.NotEmpty(t, path)
	return path
}

// After a SIGKILL of the agent, its guard removes the files, just as carefully.
func TestNothingOfTheUsersIsRemovedByTheGuard(t *testing.T) {
	dir := t.TempDir()
	v := victim{Joined: true, TempDir: filepath.Join(dir, "temp"), Script: "exec sleep 600"}
	require.NoError(t, os.Mkdir(v.TempDir, 0o777))
	c := newCanary(t, filepath.Join(dir, "home"))
	require.NoError(t, os.Symlink(c.dir, filepath.Join(dir, "other")))
	for range 3 {
		h := attack(t, v)
		h.send(hello(v))
		h.send(startOf(v))
		_, ok := h.await(wire.TypeRunning)
		require.True(t, ok, h.said.String())
		guards := childrenNamed(t, h.agent.Process.Pid, "job-guard")
		require.Len(t, guards, 1)
		stop := swap(filepath.Join(v.TempDir, "gorun-*"), filepath.Join(dir, "other"), func() {})
		require.NoError(t, h.agent.Process.Kill())
		_ = h.agent.Wait()
		require.Eventually(t, func() bool { return !isAlive(guards[0]) }, time.Minute, time.Millisecond)
		stop()
		c.check(t)
	}
}

// Another user can rename only entries of a temporary directory with write permission. In a sticky directory such as
// /tmp, these are only that user's own.
func TestAnotherUserExchangesPrivateDirectories(t *testing.T) {
	testneeds.Root(t)
	for name, mode := range map[string]os.FileMode{"sticky": 0o777 | os.ModeSticky, "for all": 0o777} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
			v := victim{Joined: true, TempDir: filepath.Join(dir, "temp"), Script: "exec sleep 600"}
			require.NoError(t, os.Mkdir(v.TempDir, 0o777))
			require.NoError(t, os.Chmod(v.TempDir, mode))
			c := newCanary(t, filepath.Join(dir, "home"))
			link := filepath.Join(v.TempDir, "theirs")
			require.NoError(t, os.Symlink(c.dir, link))
			require.NoError(t, os.Lchown(link, 54321, 54321))
			worked, stop := swapAs(t, 54321, filepath.Join(v.TempDir, "gorun-*"), link)
			for range 5 {
				h := attack(t, v)
				h.send(hello(v))
				h.send(startOf(v))
				if _, ok := h.await(wire.TypeRunning); ok && mode&os.ModeSticky == 0 {
					worked()
				}
				h.end()
			}
			stop()
			c.check(t)
		})
	}
}

// childrenNamed returns the children of a process whose first argument is the given name.
func childrenNamed(t *testing.T, parent int, name string) (pids []int) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	require.NoError(t, err)
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			var pid int
			_, err := fmt.Sscan(field, &pid)
			require.NoError(t, err)
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), name) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Symbolic links below the log directory do not redirect the agent's files.
func TestLogFilesStayBelowTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	c := newCanary(t, filepath.Join(dir, "home"))
	require.NoError(t, os.Symlink(c.dir, filepath.Join(dir, "link")))
	for i, at := range []string{"*", "*/*", "*/*/attempt_0", "*/*/attempt_0/0"} {
		v := victim{Joined: true, TempDir: dir, Script: "echo out; echo err >&2"}
		v.LogDir = filepath.Join(dir, fmt.Sprint("logs", i))
		require.NoError(t, os.Mkdir(v.LogDir, 0o777))
		stop := swap(filepath.Join(v.LogDir, at), filepath.Join(dir, "link"), func() {})
		for i := range 10 {
			h := attack(t, v)
			s := startOf(v)
			base := filepath.Join(v.LogDir, fmt.Sprintf("run_%d", i), "node1")
			s.Logs = &wire.Logs{Logs: spec.Logs{Base: base, Redirect: []spec.Streams{1, 3}, Tee: []spec.Streams{2, 0}}}
			h.run(v, s)
			h.end()
		}
		stop()
		c.check(t)
	}
}

// File names from the launcher are ignored, and a failed rank reveals no other file to it.
func TestErrorFilesAreTheNodesOwn(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("precious"), 0o600))
	for name, c := range map[string]struct{ script, want string }{
		"file": {`echo mine >"$TORCHELASTIC_ERROR_FILE"`, "mine\n"},
		"link": {`ln -s ` + secret + ` "$TORCHELASTIC_ERROR_FILE"`, ""},
		"pipe": {`mkfifo "$TORCHELASTIC_ERROR_FILE"`, ""},
		"key":  {`ln -s key "$TORCHELASTIC_ERROR_FILE"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := victim{Joined: true, TempDir: dir, Script: c.script + `; [ "$(cat "$GORUN_JOB_KEY")" = key ] && exit 3`}
			h := attack(t, v)
			s := startOf(v)
			s.Ranks = s.Ranks[:1]
			s.Common = []string{"TORCHELASTIC_ERROR_FILE=" + secret, "GORUN_JOB_KEY=" + secret}
			s.Ranks[0].Env = s.Common
			h.send(hello(v))
			h.send(s)
			f, ok := h.await(wire.TypeEnded)
			for ; ok; f, ok = h.await(wire.TypeEnded) {
				var e wire.Ended
				require.NoError(t, f.Decode(&e))
				if len(e.Ranks) > 0 {
					assert.Equal(t, 3, e.Ranks[0].Code)
					assert.Equal(t, c.want, string(e.Ranks[0].ErrorFile))
					break
				}
			}
			require.True(t, ok, h.said.String())
			h.end()
			text, err := os.ReadFile(secret)
			require.NoError(t, err)
			assert.Equal(t, "precious", string(text))
		})
	}
}

// A launcher cannot end processes by naming them: neither by the pid and directory of --copy, nor by the marker of a
// job.
func TestNoProcessEndsForAHead(t *testing.T) {
	dir := t.TempDir()
	for _, joined := range []bool{true, false} {
		v := victim{Joined: joined, TempDir: dir, Script: "exit 0"}
		other := asleep(t)
		for _, copied := range []string{"x-", "/tmp/gorun-job-", "sleep", "/tmp/gorun-job-m", "600"} {
			h := attack(t, v)
			greeting := hello(v)
			greeting.Copied, greeting.Lease = wire.Copied{Dir: copied, PID: other}, time.Millisecond
			h.send(greeting)
			h.wait() // the lease has expired
			assert.True(t, isAlive(other), copied)
		}
	}
	v := victim{Joined: true, TempDir: dir, Script: "exit 0"}
	const outer = "ffffffffffffffffffffffffffffffff"
	h := attack(t, v, "GORUN_JOB="+outer)
	h.send(hello(v))
	_, ok := h.await(wire.TypeFacts)
	require.True(t, ok)
	later := exec.Command("sleep", "600")
	later.Env = []string{"GORUN_JOB=" + outer}
	require.NoError(t, later.Start())
	defer func() { _ = later.Process.Kill(); _ = later.Wait() }()
	s := startOf(v)
	s.JobID = outer
	h.send(s)
	f, ok := h.await(wire.TypeStartFailed)
	require.True(t, ok)
	var failed wire.StartFailed
	require.NoError(t, f.Decode(&failed))
	assert.Contains(t, failed.Text, "the id of a job that this node already runs in")
	h.send(&wire.Kill{})
	h.end()
	assert.True(t, isAlive(later.Process.Pid))
}

// The keeper of --copy's files is identified by the random name of its directory.
func TestTheKeeperIsDismissed(t *testing.T) {
	const mark = "gorun-job-m0123456789abcdef"
	keeper := exec.Command("sh", "-c", "while :; do sleep 600 & wait $!; done", mark)
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, keeper.Start())
	defer func() { _ = syscall.Kill(-keeper.Process.Pid, syscall.SIGKILL) }()
	endCopyKeeper(wire.Copied{Dir: "/tmp/gorun-job-mfedcba9876543210", PID: keeper.Process.Pid})
	require.True(t, isAlive(keeper.Process.Pid))
	endCopyKeeper(wire.Copied{Dir: "/tmp/" + mark, PID: keeper.Process.Pid})
	var exit *exec.ExitError
	require.ErrorAs(t, keeper.Wait(), &exit)
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
}

// messages returns one valid message of each type that a launcher may send. They run only the program of v.
func messages(v victim) []wire.Message {
	w := world.World{Name: "w", Hosts: []string{"h"}, Apps: []world.App{{NumRanks: 1}}, Ranks: []world.Rank{{Job: 7}}}
	started := startOf(v)
	started.MPI = wire.MPI{Offered: true, NumRanks: 2, Worlds: []world.World{w}}
	started.Stdio.Piped = []int{0}
	return []wire.Message{
		hello(v), started, &wire.Open{Addr: "127.0.0.1"}, &wire.Ping{}, &wire.Check{Program: true, Patience: time.Second},
		&wire.Probe{Key: make([]byte, 16), Listen: true}, &wire.Exchange{Message: exchange.Message{Kind: 1}},
		&wire.Signal{Signal: spec.Signal{Number: syscall.SIGWINCH}},
		&wire.Signal{Signal: spec.Signal{Number: -5, Group: true}}, &wire.Signal{Signal: spec.Signal{Number: 1 << 20}},
		&wire.Signal{Signal: spec.Signal{Number: syscall.SIGKILL}, Agent: true},
		&wire.Inspect{}, &wire.Usage{Stacks: true}, &wire.Spawned{Call: 1, World: "w"}, &wire.Suspend{},
		&wire.Grow{
			World: w, Programs: []spec.Command{{Name: "/bin/false"}},
			Ranks: []wire.Row{{Process: spec.Process{Rank: 7}}},
		},
		&wire.Credit{Stream: 1, Bytes: -1 << 40}, &wire.Credit{Stream: 1 << 30, Bytes: 1 << 62},
		&wire.Resize{Rows: -1, Cols: 1 << 40}, &wire.Kill{}, &wire.Cleanup{}, &wire.Facts{}, &wire.Spawn{}, &wire.CleanedUp{},
	}
}

// odd returns Start and Grow messages that contradict themselves.
func odd(v victim) (list []wire.Message) {
	for _, change := range []func(s *wire.Start){
		func(s *wire.Start) { s.Apps = nil },
		func(s *wire.Start) { s.Apps, s.Ranks = nil, nil },
		func(s *wire.Start) { s.Apps[0].Argv = nil },
		func(s *wire.Start) { s.Apps[0].Build = true },
		func(s *wire.Start) { s.Ranks[0].App = 1 << 40 },
		func(s *wire.Start) { s.Ranks[0].LocalRank = -1 },
		func(s *wire.Start) { s.Ranks = append(s.Ranks, s.Ranks...) },
		func(s *wire.Start) { s.Ranks[0].Argv = []string{} },
		func(s *wire.Start) {
			s.Ranks[0].MemoryPolicy, s.Ranks[0].CPUs = 1<<40, placement.CPUSetOf([]uint64{1 << 63, 1 << 63})
		},
		func(s *wire.Start) {
			s.Logs = &wire.Logs{Logs: spec.Logs{Base: filepath.Join(v.TempDir, "run", "node")}}
		},
		func(s *wire.Start) {
			s.Logs = &wire.Logs{Logs: spec.Logs{Base: os.DevNull, Redirect: []spec.Streams{1}}}
		},
		func(s *wire.Start) {
			s.Logs = &wire.Logs{
				Logs: spec.Logs{Base: "\x00", Names: []string{"%x", "%"}}, Template: "${evil", Digits: 1 << 40,
			}
		},
		func(s *wire.Start) { s.Window = -1 << 62 },
		func(s *wire.Start) { s.Window = 1 << 62 },
		func(s *wire.Start) { s.Attempt = -1 },
		func(s *wire.Start) { s.StoreReport = 1 },
		func(s *wire.Start) {
			s.MPI = wire.MPI{Offered: true, Node: -1, NumRanks: -1, Worlds: []world.World{{}, {}}}
		},
		func(s *wire.Start) {
			s.MPI = wire.MPI{
				Offered: true, PMIPort: true,
				Worlds: []world.World{{Ranks: []world.Rank{{Host: 5, Node: 9, App: 3}}}},
			}
		},
	} {
		s := startOf(v)
		change(s)
		list = append(list, s)
	}
	return append(list,
		&wire.Grow{Ranks: []wire.Row{{Process: spec.Process{Rank: 9, App: -1}}}}, &wire.Grow{Over: []string{"w", "w", ""}},
		&wire.Grow{
			Ranks:    []wire.Row{{Process: spec.Process{Rank: 9}}, {Process: spec.Process{Rank: 9}}},
			Programs: []spec.Command{{Name: "true"}},
		},
		&wire.Grow{World: world.World{Ranks: []world.Rank{{Host: -1}}}}, &wire.Grow{World: world.World{Name: "../../x"}},
	)
}

// frames returns frames of each type: valid, empty, random and huge.
func frames(v victim, random *rand.Rand) (list [][]byte) {
	for _, m := range append(messages(v), odd(v)...) {
		whole := wire.AppendControl(nil, m)
		list = append(list, whole)
		for range 3 { // changes random bytes of the body
			if broken := append([]byte{}, whole...); len(broken) > 8 {
				broken[8+random.IntN(len(broken)-8)] = byte(random.Uint32())
				list = append(list, broken)
			}
		}
	}
	for number := range 64 {
		for _, body := range [][]byte{nil, {0xff}, make([]byte, 1<<16), []byte(strings.Repeat("\xff", 1<<10))} {
			list = append(list, append(header(byte(number), len(body)), body...))
		}
	}
	stdin := func(rank int) []byte { return wire.AppendStdin(nil, rank, make([]byte, 1<<16)) }
	return append(list, stdin(0), stdin(1), stdin(1<<30), header(255, 1<<31-1), header(byte(wire.TypeStart), -1))
}

// header returns the header of a frame without its body.
func header(number byte, size int) []byte {
	h := binary.LittleEndian.AppendUint32(nil, uint32(size))
	return append(h, number, 0, 0, 0)
}

// Every frame is sent in every state, under `make soak`, and otherwise a sample. The agent never panics, starts only
// the node's own program, and ends no unrelated process. It removes and changes no file of the user, and its memory
// stays bounded. It ends with the connection.
func TestEveryFrameInEveryState(t *testing.T) {
	dir := t.TempDir()
	c := newCanary(t, filepath.Join(dir, "home"))
	other := asleep(t)
	random := testneeds.Rand(t)
	for _, joined := range []bool{true, false} {
		v := victim{Joined: joined, TempDir: filepath.Join(dir, "temp"), Script: "exec sleep 600"}
		require.NoError(t, os.MkdirAll(v.TempDir, 0o777))
		states := map[string]func(h *hostile){
			"new":     func(*hostile) {},
			"greeted": func(h *hostile) { h.send(hello(v)) },
			"running": func(h *hostile) {
				h.send(hello(v))
				h.send(startOf(v))
				_, _ = h.await(wire.TypeRunning)
			},
			"over": func(h *hostile) {
				h.send(hello(v))
				h.send(startOf(v))
				h.send(&wire.Kill{})
				h.send(&wire.Cleanup{})
				_, _ = h.await(wire.TypeCleanedUp)
			},
		}
		for name, enter := range states {
			t.Run(fmt.Sprintf("joined %v, %s", joined, name), func(t *testing.T) {
				var h *hostile
				for _, frame := range frames(v, random) {
					if !testneeds.Sampled(random, 6) {
						continue
					}
					if h == nil {
						h = attack(t, v)
						enter(h)
					}
					_, err := h.conn.Write(frame)
					h.send(&wire.Ping{})
					if _, ok := h.await(wire.TypePong); err != nil || !ok { // the agent has closed the connection
						h.end()
						h = nil
					}
				}
				if h != nil {
					require.Less(t, peak(t, h.agent.Process.Pid), int64(256<<20))
					h.end()
				}
			})
		}
		left, err := filepath.Glob(filepath.Join(v.TempDir, "*"))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
	c.check(t)
	assert.True(t, isAlive(other))
}

// A launcher that sends forever and reads nothing does not make the agent's memory grow.
func TestFramesWithoutEnd(t *testing.T) {
	v := victim{Joined: true, TempDir: t.TempDir(), Script: "exec sleep 600"}
	for _, m := range []wire.Message{
		&wire.Ping{}, &wire.Inspect{}, &wire.Usage{}, &wire.Kill{}, &wire.Cleanup{}, &wire.Signal{}, &wire.Resize{},
		&wire.Credit{Stream: 1, Bytes: 1 << 30},
	} {
		h := attack(t, v)
		h.send(hello(v))
		h.send(startOf(v))
		_, ok := h.await(wire.TypeRunning)
		require.True(t, ok, h.said.String())
		var frames []byte
		for len(frames) < 1<<18 {
			frames = wire.AppendControl(frames, m)
		}
		for range testneeds.Count(1, 16) {
			if _, err := h.conn.Write(frames); err != nil {
				break
			}
		}
		if size := peak(t, h.agent.Process.Pid); assert.Less(t, size, int64(128<<20), "%T", m) {
			t.Logf("%T: %d MiB", m, size>>20)
		}
		h.end()
	}
}
