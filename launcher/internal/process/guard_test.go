package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// noPID is above the largest pid of Linux, 4194304. A guard that outlives a broken test must not mistake another
// session for a rank's.
const noPID = 1 << 23

// settled waits until a forked guard has done everything that it does before it sleeps.
func (s scene) settled(g *Guard) {
	s.Helper()
	s.eventually(func() bool {
		dir, err := os.Readlink(procFile(g.PID(), "cwd"))
		p, _ := Describe(g.PID())
		return err == nil && dir == "/" && p.State == 'S'
	}, "guard asleep in /")
}

// eachWay runs a test with every kind of guard.
func eachWay(t *testing.T, test func(t *testing.T, ready bool)) {
	for name, ready := range map[string]bool{"image": false, "program": true} {
		t.Run(name, func(t *testing.T) { test(t, ready) })
	}
}

func startGuard(t *testing.T, cfg GuardConfig) *Guard {
	t.Helper()
	return startGuardBy(t, false, cfg)
}

func startGuardBy(t *testing.T, ready bool, cfg GuardConfig) *Guard {
	t.Helper()
	g := &Guard{prepared: ready}
	require.NoError(t, g.Start(cfg))
	t.Cleanup(g.Dismiss)
	return g
}

func TestGuardIsNeutralAndHoldsNothing(t *testing.T) {
	s := newScene(t)
	g := startGuard(t, GuardConfig{ID: newID(t)})
	s.settled(g)

	p, err := Describe(g.PID())
	require.NoError(t, err)
	assert.Equal(t, guardName, p.Name)
	assert.Equal(t, g.PID(), p.SID, "its own session")
	argv, err := os.ReadFile(procFile(g.PID(), "cmdline"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(argv), guardName+"\x00"), "%q", argv)
	assert.NotContains(t, string(argv), "test", "neither the name nor the arguments of the launcher")
	environ, err := os.ReadFile(procFile(g.PID(), "environ"))
	require.NoError(t, err)
	assert.Empty(t, strings.TrimRight(string(environ), "\x00"), "secrets in our environment stay with us")

	descriptors := descriptorsOf(t, g.PID())
	require.Len(t, descriptors, 3)
	assert.Contains(t, descriptors["0"], "pipe:")
	assert.Equal(t, descriptors["0"], descriptors["3"], "no link")
	own, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	assert.Equal(t, own, descriptors["1"])
}

func descriptorsOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(procFile(pid, "fd"))
	require.NoError(t, err)
	open := map[string]string{}
	for _, e := range entries {
		open[e.Name()], err = os.Readlink(procFile(pid, "fd/"+e.Name()))
		require.NoError(t, err)
	}
	return open
}

func TestGuardIsDeafToSignals(t *testing.T) {
	s := newScene(t)
	g := startGuard(t, GuardConfig{ID: newID(t)})
	s.settled(g)
	for sig := syscall.Signal(1); sig < 32; sig++ {
		if sig != syscall.SIGKILL && sig != syscall.SIGSTOP {
			require.NoError(t, unix.Kill(g.PID(), sig))
		}
	}
	require.NoError(t, unix.Kill(g.PID(), unix.SIGSTOP))
	s.eventually(func() bool { p, _ := Describe(g.PID()); return p.State == 'T' }, "stopped")
	require.NoError(t, unix.Kill(g.PID(), unix.SIGCONT))
	s.settled(g)

	status, err := os.ReadFile(procFile(g.PID(), "status"))
	require.NoError(t, err)
	assert.Contains(t, string(status), "SigBlk:\tfffffffffffbfeff\n", "all but SIGKILL and SIGSTOP")
	g.AddRank(noPID)
	assert.NoError(t, g.process.writeErr)
}

// signalMasks returns the distinct signal masks of this process's threads.
func signalMasks(t *testing.T) map[string]bool {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	masks := map[string]bool{}
	for _, thread := range threads {
		status, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/status")
		if err == nil { // a thread may end
			_, rest, _ := strings.Cut(string(status), "SigBlk:\t")
			line, _, _ := strings.Cut(rest, "\n")
			masks[line] = true
		}
	}
	return masks
}

func TestDismissedGuardLeavesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, ready bool) {
		newScene(t)
		before, masks := openDescriptorCount(t), signalMasks(t)
		for range testneeds.Count(50, 1000) {
			g := &Guard{prepared: ready}
			require.NoError(t, g.Start(GuardConfig{ID: newID(t)}))
			g.AddRank(noPID)
			require.NoError(t, g.process.writeErr)
			pid := g.PID()
			g.Dismiss()
			require.Equal(t, unix.ESRCH, unix.Kill(pid, 0))
		}
		assert.LessOrEqual(t, openDescriptorCount(t), before, "what an earlier test had open may be closed meanwhile")
		assert.False(t, HasChildren())
		assert.Subset(t, masks, signalMasks(t), "no thread keeps all signals blocked")
	})
}

func openDescriptorCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// The fork happens among goroutines that allocate, collect garbage and are preempted all the time.
func TestGuardsStartUnderLoad(t *testing.T) { eachWay(t, guardsStartUnderLoad) }

func guardsStartUnderLoad(t *testing.T, ready bool) {
	newScene(t)
	stop, stopped := make(chan bool), make(chan int)
	const workers = 4
	for range workers {
		go func() {
			kept := map[int][]byte{}
			for n := 0; ; n++ {
				select {
				case <-stop:
					stopped <- len(kept)
					return
				default:
					kept[n%1000] = make([]byte, n%5000)
				}
			}
		}()
	}
	for range testneeds.Count(50, 1000) {
		g := startGuardBy(t, ready, GuardConfig{ID: newID(t)})
		died := g.Died()
		g.Dismiss()
		select {
		case <-died:
			t.Fatal("a dismissed guard counts as dead")
		default:
		}
	}
	close(stop)
	for range workers {
		<-stopped
	}
}

func TestDeadGuardIsNoticedAndReplaced(t *testing.T) {
	newScene(t)
	g := startGuard(t, GuardConfig{ID: newID(t)})
	g.AddRank(noPID)
	died, first := g.Died(), g.PID()
	require.NoError(t, unix.Kill(first, unix.SIGKILL))
	<-died
	g.AddRank(noPID + 1)
	require.ErrorIs(t, g.process.writeErr, errGuardDied)
	g.AddPath(t.TempDir())
	require.ErrorIs(t, g.process.writeErr, errGuardDied)

	require.NoError(t, g.Replace())
	assert.NotEqual(t, first, g.PID())
	assert.NotEqual(t, died, g.Died(), "the replacement is watched anew")
	g.AddRank(noPID + 2)
	assert.NoError(t, g.process.writeErr)
	assert.Equal(t, []int{noPID, noPID + 1, noPID + 2}, g.Guarded().Ranks, "what the dead guard did not receive is kept")
}

func TestGuardRefusesWhatItCouldNotUse(t *testing.T) {
	newScene(t)
	before := openDescriptorCount(t)
	_, err := Identify("relative")
	require.ErrorContains(t, err, `"relative" is not an absolute path`)
	require.ErrorIs(t, new(Guard).Start(GuardConfig{ID: "x", Executable: "/does/not/exist"}), os.ErrNotExist)
	assert.Equal(t, before, openDescriptorCount(t))
	assert.False(t, HasChildren())
}

// More records than a pipe holds at first, and more than it can ever hold.
func TestGuardPipeGrows(t *testing.T) {
	newScene(t)
	g := startGuard(t, GuardConfig{ID: newID(t)})
	initial, err := unix.FcntlInt(uintptr(g.process.pipe), unix.F_GETPIPE_SZ, 0)
	require.NoError(t, err)
	for n := range initial / 8 {
		g.AddRank(noPID + n)
		require.NoError(t, g.process.writeErr)
	}
	grown, err := unix.FcntlInt(uintptr(g.process.pipe), unix.F_GETPIPE_SZ, 0)
	require.NoError(t, err)
	assert.Greater(t, grown, initial)

	long := "/" + strings.Repeat("x/", 1<<10)
	for g.process.writeErr == nil {
		g.AddPath(long)
		require.Less(t, len(g.job.onDeath), 1<<20, "a pipe of 2 GiB")
	}
	assert.ErrorContains(t, g.process.writeErr, "does not grow")
	g.AddRank(noPID)
	assert.ErrorContains(t, g.process.writeErr, "does not grow", "a pipe that may end in half a record takes no more")
}

func TestGuardEndsTheJobOfAKilledLauncher(t *testing.T) {
	for name, shapes := range map[string][]string{
		"plain":       {"plain"},
		"own session": {"setsid"},
		"no marker":   {"unmarked"},
		"daemon":      {"daemon"},
		"closed":      {"closed"},
		"stopped":     {"stopped"},
		"traced":      {"traced"},
		"all at once": {"plain", "setsid", "unmarked", "daemon", "closed", "stopped", "traced"},
		"replaced":    {"unmarked", "setsid", "replace"},
		"prepared":    {"unmarked", "setsid", "prepare"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			dir := privateDir(t)
			launcher, guard := s.launch("", newID(t), dir, shapes...)
			expected := 1 // the launcher
			for _, shape := range shapes {
				if shape != "replace" && shape != "prepare" {
					expected += 2
				}
			}
			s.eventuallyCount(expected)
			require.NoError(t, launcher.Process.Kill())
			s.eventuallyGone(guard)
			assert.NoDirExists(t, dir)
		})
	}
}

func privateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "below"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "below", "file"), nil, 0o600))
	return dir
}

func TestGuardEndsStorms(t *testing.T) {
	for _, tt := range []struct {
		shape            string
		lasting, bunnies int
	}{{"bunny", 3, 2}, {"respawn", 7, 0}} {
		t.Run(tt.shape, func(t *testing.T) {
			s := newScene(t)
			launcher, guard := s.launch("", newID(t), privateDir(t), tt.shape, tt.shape)
			s.eventuallyRaging(tt.lasting, tt.bunnies)
			require.NoError(t, launcher.Process.Kill())
			s.eventuallyGone(guard)
		})
	}
}

func TestGuardBecomesTheGivenExecutable(t *testing.T) {
	s := newScene(t)
	program := filepath.Join(t.TempDir(), "host")
	own, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, own, 0o700))

	g := startGuard(t, GuardConfig{ID: newID(t), Executable: program})
	require.NoError(t, os.Remove(program), "it is held, whatever becomes of its name")
	s.settled(g)
	assert.Contains(t, descriptorsOf(t, g.PID())["1"], program)

	// The guard notices a launcher's death only by the end of the pipe.
	dir := privateDir(t)
	g.AddPath(dir)
	require.NoError(t, g.process.writeErr)
	require.NoError(t, unix.Close(g.process.pipe))
	g.process.pipe = -1
	<-g.Died()
	assert.NoDirExists(t, dir)
}

func TestInnerAndOuterJob(t *testing.T) {
	s := newScene(t)
	outer, inner := newID(t), newID(t)
	dir := privateDir(t)
	s.start(Marker(outer), "sleeper")
	_, guard := s.launch(Marker(outer), inner, dir, "setsid", "unmarked")
	s.eventuallyCount(6)

	innerTarget := Target{ID: inner}
	innerTarget.KillAll(gone)
	s.eventually(func() bool { found, err := innerTarget.Find(); return err == nil && len(found) == 0 }, "inner job gone")
	assert.True(t, alive(guard), "a guard belongs to the outer job only")
	s.eventuallyCount(2) // the outer job's rank and the inner launcher

	require.Empty(t, Target{ID: outer}.KillAll(gone))
	s.eventuallyGone(guard)
	assert.NoDirExists(t, dir, "the inner guard had the time to clean up")
}

func TestGuardKeepsTheOuterMarkerOnly(t *testing.T) {
	s := newScene(t)
	outer := newID(t)
	_, guard := s.launch(Marker(outer), newID(t), privateDir(t))
	s.eventually(func() bool {
		environ, err := os.ReadFile(procFile(guard, "environ"))
		return err == nil && strings.TrimRight(string(environ), "\x00") == MarkerVar+"="+outer
	}, "environment of the guard")
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		g := new(Guard)
		if err := g.Start(GuardConfig{ID: "0123456789abcdef0123456789abcdef"}); err != nil {
			b.Fatal(err)
		}
		g.Dismiss()
	}
}

// The pipe never fills, however many ranks start and end. A new guard process without the reaped ranks replaces the
// old one. A channel of Died then reports the death of the new one.
func TestGuardOfRanksThatComeAndGo(t *testing.T) {
	newScene(t)
	g := startGuard(t, GuardConfig{ID: newID(t)})
	g.AddRank(noPID)
	died, first := g.Died(), g.PID()
	for n := range 3 * maxReaped {
		g.AddRank(noPID + 1 + n)
		g.RemoveRanks([]int{noPID + 1 + n})
		require.NoError(t, g.process.writeErr)
		unread, err := unix.IoctlGetInt(g.process.pipe, unix.TIOCINQ)
		require.NoError(t, err)
		require.Less(t, unread, 4096)
	}
	assert.Equal(t, []int{noPID}, g.Guarded().Ranks)
	assert.NotEqual(t, first, g.PID())
	require.ErrorIs(t, unix.Kill(first, 0), unix.ESRCH)
	require.NoError(t, unix.Kill(g.PID(), unix.SIGKILL))
	<-died
	require.NoError(t, g.Replace())
	g.Dismiss()
	assert.False(t, HasChildren())
}
