package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/kernel"
)

// eachWay runs a test with clone3 and with the fallbacks for older kernels.
func eachWay(t *testing.T, test func(*testing.T, group)) {
	for name, way := range map[string]kernel.Variant{
		"clone3": kernel.Clone3, "clone": kernel.ClonePidfd,
		"clone without pidfd": kernel.ClonePlain,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 0)
			g.Use(way)
			test(t, g)
		})
	}
}

func TestExitCodesAndSignals(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		want := map[int]process.Status{}
		var ranks []process.Rank
		add := func(status process.Status, argv []string) {
			r := piped(len(ranks))
			r.Argv = argv
			want[r.ID] = status
			ranks = append(ranks, r)
		}
		for _, code := range []int{0, 1, 2, 17, 126, 127, 128, 137, 255} {
			add(process.Status{Code: code}, role("exit", strconv.Itoa(code)))
		}
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP} {
			if !signal.Ignored(sig) { // as with nohup, for ranks too
				add(process.Status{Code: -1, Signal: sig}, role("kill", strconv.Itoa(int(sig))))
			}
		}
		begun := time.Now()
		g.run(nil, ranks...)
		for id, status := range want {
			s := g.story(id)
			assert.Equal(t, status, s.status, "rank %d", id)
			assert.True(t, s.at.After(begun) && s.at.Before(time.Now()), "rank %d: %v", id, s.at)
		}
	})
}

func TestSignalsFromOutside(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		signals := []syscall.Signal{
			syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
			syscall.SIGPIPE, syscall.Signal(40),
		}
		var ranks []process.Rank
		for id := range signals {
			ranks = append(ranks, piped(id))
		}
		require.NoError(t, g.Start(process.Common{Path: "/bin/sleep", Argv: []string{"sleep", "600"}}, ranks))
		for id, sig := range signals {
			require.NoError(t, g.Signal(id, sig))
			g.await(ranks[id])
			assert.Equal(t, process.Status{Code: -1, Signal: sig}, g.story(id).status)
		}
	})
}

func TestStringsArriveByteForByte(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		strange := []string{"", " ", "a\nb", "\xff\xfe\x80", "$(id)", "--", "ü", strings.Repeat("long", 5000), ""}
		common := process.Common{Path: self, Argv: append(role("raw"), strange...)}
		for i, s := range strange {
			common.Env = append(common.Env, fmt.Sprintf("C%d=%s", i, s))
		}
		common.Env = append(common.Env, "EMPTY=", "no equals sign", "C0=again")
		var ranks []process.Rank
		for id := range 5 {
			r := piped(id)
			r.Env = []string{"RANK=" + strconv.Itoa(id), "OWN=" + strange[id%len(strange)]}
			if id == 3 {
				r.Argv = append(role("raw"), "its own", "")
			}
			ranks = append(ranks, r)
		}
		require.NoError(t, g.Start(common, ranks))
		for _, r := range ranks {
			g.await(r)
			argv := r.Argv
			if argv == nil {
				argv = common.Argv
			}
			cmdline := strings.Join(argv, "\x00") + "\x00"
			environ := strings.Join(append(common.Env[:len(common.Env):len(common.Env)], r.Env...), "\x00") + "\x00"
			assert.Equal(t, fmt.Sprintf("%d\n%s%d\n%s", len(cmdline), cmdline, len(environ), environ), g.text(r.ID)[0])
		}
	})
}

func TestZeroBytesAreRefused(t *testing.T) {
	good := process.Common{Path: self, Argv: role("exit", "0")}
	for name, bad := range map[string]struct {
		process.Common
		rank process.Rank
	}{
		"common environment": {process.Common{Path: self, Argv: good.Argv, Env: []string{"A=b\x00c"}}, process.Rank{}},
		"common arguments":   {process.Common{Path: self, Argv: []string{"a\x00"}}, process.Rank{}},
		"path":               {process.Common{Path: "\x00", Argv: good.Argv}, process.Rank{}},
		"rank's environment": {good, process.Rank{Env: []string{"\x00"}}},
		"rank's arguments":   {good, process.Rank{Argv: []string{"x", "\x00"}}},
		"rank's directory":   {good, process.Rank{Dir: "/\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 0)
			err := g.Start(bad.Common, []process.Rank{bad.rank})
			require.ErrorIs(t, err, syscall.EINVAL)
			assert.ErrorContains(t, err, "contains a zero byte")
		})
	}
}

// Several programs need several calls of Start.
func TestProgramsAndDirectoriesOfTheirOwn(t *testing.T) {
	g := newGroup(t, 0)
	here, there := t.TempDir(), t.TempDir()
	first, second, third := piped(10), piped(7), piped(1)
	first.Dir = here
	second.Dir, second.Path, second.Argv = there, "/bin/pwd", []string{"pwd", "-P"}
	pwd := process.Common{Path: "/bin/pwd", Argv: []string{"pwd", "-P"}}
	require.NoError(t, g.Start(pwd, []process.Rank{first, second}))
	require.NoError(t, g.Start(process.Common{Path: self, Argv: role("exit", "5")}, []process.Rank{third}))
	for _, r := range []process.Rank{first, second, third} {
		g.await(r)
	}
	assert.Equal(t, here+"\n", g.text(10)[0])
	assert.Equal(t, there+"\n", g.text(7)[0])
	assert.Equal(t, 5, g.story(1).status.Code)
	assert.ErrorContains(t, g.Start(pwd, []process.Rank{piped(7)}), "rank 7: a rank of that number is running")
	fourth := piped(20)
	require.Error(t, g.Start(pwd, []process.Rank{fourth, piped(7)}))
	require.NoError(t, g.Start(pwd, []process.Rank{fourth}), "no rank was started, so its number is free")
	g.await(fourth)
}

func TestRelativeProgramIsFoundFromTheRanksDirectory(t *testing.T) {
	g := newGroup(t, 0)
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/bin/pwd", filepath.Join(dir, "mine")))
	r := piped(0)
	r.Dir = dir
	require.NoError(t, g.Start(process.Common{Path: "./mine", Argv: []string{"mine", "-P"}}, []process.Rank{r}))
	g.await(r)
	assert.Equal(t, dir+"\n", g.text(0)[0])
}

func TestEachRankLeadsASession(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		ranks := []process.Rank{piped(0), piped(1)}
		g.start(role("wait"), ranks...)
		for _, r := range ranks {
			g.untilOutput(r.ID, 1, 2)
			p, err := process.Describe(g.story(r.ID).pid)
			require.NoError(t, err)
			assert.Equal(t, []int{p.PID, p.PID, os.Getpid()}, []int{p.SID, p.PGID, p.PPID})
		}
	})
}

func TestRanksDieWithTheirLauncher(t *testing.T) {
	launcher := exec.Command(self)
	launcher.Args = role("launch", "/proc/self/exe", roleArg, "wait")
	rank := launchedPid(t, launcher)
	require.NoError(t, launcher.Process.Kill())
	_ = launcher.Wait()
	awaitEnd(t, rank)
}

// launchedPid starts a launcher whose rank prints its pid, and returns a pidfd of that rank.
func launchedPid(t *testing.T, launcher *exec.Cmd) (pidfd int) {
	out, err := launcher.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, launcher.Start())
	var pid int
	_, err = fmt.Fscan(out, &pid)
	require.NoError(t, err)
	pidfd, err = unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(pidfd) })
	return pidfd
}

func awaitEnd(t *testing.T, pidfd int) {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	require.NoError(t, err)
	require.Equal(t, 1, n, "it lives on")
}

func TestSignalReachesWhatARankLeftBehind(t *testing.T) {
	g := newGroup(t, 0)
	r := piped(0)
	g.start(role("leave"), r)
	g.until(0, func(s *story) bool { return s.exited })
	assert.Equal(t, process.Status{}, g.story(0).status)
	child, err := strconv.Atoi(strings.TrimSpace(g.untilOutput(0, 1, 2)))
	require.NoError(t, err)
	pidfd, err := unix.PidfdOpen(child, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	assert.False(t, g.story(0).closed[1], "the child holds stdout open")

	require.NoError(t, g.SignalProcess(0, syscall.SIGKILL), "a zombie takes signals")
	require.NoError(t, g.Signal(0, syscall.SIGKILL))
	awaitEnd(t, pidfd)
	g.await(r)
}

func TestSignalProcessSparesTheGroup(t *testing.T) {
	g := newGroup(t, 0)
	r := piped(0)
	r.Argv = role("leave", "and stay")
	g.start(nil, r)
	pid := strings.TrimSpace(g.untilOutput(0, 1, 2))
	require.NoError(t, g.SignalProcess(0, syscall.SIGTERM))
	g.until(0, func(s *story) bool { return s.exited })
	assert.Equal(t, syscall.SIGTERM, g.story(0).status.Signal)
	child, err := strconv.Atoi(pid)
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(child, 0))
	require.NoError(t, g.Signal(0, syscall.SIGTERM))
	g.await(r)
}

func TestSignalSaysWhyItCannot(t *testing.T) {
	g := newGroup(t, 0)
	assert.ErrorIs(t, g.Signal(3, syscall.SIGTERM), process.ErrNotStarted)
	g.run(role("exit", "0"), piped(3))
	require.NoError(t, g.Close())
	assert.ErrorIs(t, g.Signal(3, syscall.SIGTERM), process.ErrClosed)
	assert.ErrorIs(t, g.Start(process.Common{Path: self}, []process.Rank{piped(4)}), process.ErrClosed)
	require.NoError(t, g.Close(), "twice is once")
}

// A host program that waits for any child also reaps ranks. Their pids must not be signalled then. The spawner is
// kept busy until that has happened.
func TestStolenRank(t *testing.T) {
	g := newGroup(t, 1)
	release := make(chan struct{})
	g.onOutput = func(int, int) { <-release }
	g.start(role("wait"), piped(0))
	g.untilOutput(0, 1, 2)
	pid := g.story(0).pid
	require.NoError(t, g.SignalProcess(0, syscall.SIGKILL))
	_, err := syscall.Wait4(pid, nil, 0, nil)
	require.NoError(t, err)
	close(release)
	g.await(piped(0))
	assert.Equal(t, process.Status{Code: -1}, g.story(0).status)
	assert.ErrorIs(t, g.Signal(0, syscall.SIGKILL), os.ErrProcessDone)
}

func TestCloseEndsRanksAndStreamsHeldByOthers(t *testing.T) {
	g := newGroup(t, 2)
	left, runs := piped(0), piped(1)
	left.Argv, runs.Argv = role("leave"), role("wait")
	g.start(nil, left, runs)
	child, err := strconv.Atoi(strings.TrimSpace(g.untilOutput(0, 1, 2)))
	require.NoError(t, err)
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	g.untilOutput(1, 1, 2)
	g.until(0, func(s *story) bool { return s.exited })

	require.NoError(t, g.Close())
	for id := range 2 {
		assert.True(t, g.story(id).closed[1], "rank %d", id)
	}
	assert.Equal(t, syscall.SIGKILL, g.story(1).status.Signal)
	assert.NoError(t, syscall.Kill(child, 0), "what ranks left is for the sweep")
	for id := range 2 {
		assert.NoFileExists(t, fmt.Sprintf("/proc/%d/stat", g.story(id).pid), "a zombie is left")
		task := fmt.Sprintf("/proc/self/task/%d", g.story(id).thread)
		assert.Eventually(t, func() bool {
			_, err := os.Stat(task)
			return err != nil
		}, patience, time.Millisecond, "a thread is left")
	}
}

// 256 ranks end at once, repeatedly, without a hang or a wrong exit code.
func TestRanksThatEndAtOnce(t *testing.T) {
	for round := range testneeds.Count(20, 1000) {
		g := newGroup(t, 1+round%4)
		var ranks []process.Rank
		for id := range 256 {
			r := piped(id)
			r.Path = []string{"/bin/true", "/bin/false"}[id%2]
			ranks = append(ranks, r)
		}
		require.NoError(t, g.Start(process.Common{Argv: []string{"x"}}, ranks))
		for id := range 256 {
			g.await(piped(id))
			require.Equal(t, id%2, g.story(id).status.Code)
		}
		require.NoError(t, g.Close())
	}
}

func TestGroupsSideBySide(t *testing.T) {
	var both sync.WaitGroup
	groups := []group{newGroup(t, 2), newGroup(t, 2)}
	for _, g := range groups {
		both.Go(func() {
			var ranks []process.Rank
			for id := range 40 {
				ranks = append(ranks, piped(id))
			}
			assert.NoError(t, g.Start(process.Common{Path: "/bin/echo", Argv: []string{"echo", "hi"}}, ranks))
			for _, r := range ranks {
				g.await(r)
				assert.Equal(t, "hi\n", g.text(r.ID)[0])
			}
			assert.NoError(t, g.Close())
		})
	}
	both.Wait()
}
