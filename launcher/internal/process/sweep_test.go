package process

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

func pidsOf(procs []Proc) (pids []int) {
	for _, p := range procs {
		pids = append(pids, p.PID)
	}
	return pids
}

func mustFind(t *testing.T, target Target) []int {
	t.Helper()
	found, err := target.Find()
	require.NoError(t, err)
	return pidsOf(found)
}

func TestFindByMarkerAndSession(t *testing.T) {
	s := newScene(t)
	job, other := newID(t), newID(t)
	ours := s.start(Marker("a:"+job+":b"), "sleeper").Process.Pid
	theirs := s.start(Marker(other), "sleeper").Process.Pid
	s.eventuallyCount(2)

	assert.Equal(t, []int{ours}, mustFind(t, Target{ID: job}))
	assert.Equal(t, []int{theirs}, mustFind(t, Target{ID: other}))
	assert.Empty(t, mustFind(t, Target{ID: job[:31]}), "half an id")
	assert.Empty(t, mustFind(t, Target{}), "nothing to look for")
	assert.Equal(t, []int{theirs}, mustFind(t, Target{Sessions: []Session{{SID: theirs}}}))
	assert.ElementsMatch(t, []int{ours, theirs}, mustFind(t, Target{ID: job, Sessions: []Session{{SID: theirs}}}))
	assert.Empty(t, mustFind(t, Target{ID: job, Since: Now() + 100}), "environments of older processes are not read")
	assert.Empty(t, mustFind(t, Target{Sessions: []Session{{SID: theirs, Since: Now() + 100}}}),
		"the session was another one's")
}

func TestOwnProcessIsNeverFound(t *testing.T) {
	sid, err := unix.Getsid(0)
	require.NoError(t, err)
	assert.NotContains(t, mustFind(t, Target{Sessions: []Session{{SID: sid}}}), os.Getpid())
}

func TestKillAllTouchesNoOtherJob(t *testing.T) {
	s := newScene(t)
	job := newID(t)
	bystander := s.start(Marker(newID(t)), "rank", "setsid").Process.Pid
	ours := s.start(Marker(job), "rank", "plain")
	s.eventuallyCount(4)
	require.Empty(t, Target{ID: job}.KillAll(gone))
	_ = ours.Wait()
	s.eventuallyCount(2)
	assert.True(t, alive(bystander))
}

func TestKillAllEndsStormsByMarkerAlone(t *testing.T) {
	s := newScene(t)
	job := newID(t)
	s.start(Marker(job), "rank", "bunny")
	s.start(Marker(job), "rank", "respawn")
	s.eventuallyRaging(4, 1)
	require.Empty(t, Target{ID: job}.KillAll(gone))
	s.eventuallyGone()
}

// A guard that is killed during its scan leaves no stopped processes behind.
func TestKillAllAtOnce(t *testing.T) {
	s := newScene(t)
	rank := s.start("", "sleeper").Process.Pid
	other := s.start("", "sleeper").Process.Pid
	if other < rank { // a scan finds the lower pid first
		rank, other = other, rank
	}
	s.eventuallyCount(2)
	ends := make(chan int32, 2)
	known := func(pid int) bool {
		if pid == other && len(ends) == 0 {
			var is siginfo
			_ = waitid(unix.P_PID, rank, &is, unix.WSTOPPED|unix.WNOWAIT)
			ends <- is.code
		}
		return true
	}
	require.Empty(t, Target{AtOnce: true, Sessions: []Session{{SID: rank}}, Known: known}.KillAll(gone))
	require.EqualValues(t, childKilled, <-ends)
}

func TestKillAllReturnsSurvivorsInTime(t *testing.T) {
	s := newScene(t)
	job := newID(t)
	pid := s.start(Marker(job), "sleeper").Process.Pid
	s.eventually(func() bool { return len(mustFind(t, Target{ID: job})) == 1 }, "found")
	left := Target{ID: job}.KillAll(0)
	assert.Equal(t, []int{pid}, pidsOf(left), "killed, but nobody looked whether it is dead")
	assert.True(t, Target{ID: job}.Terminate(gone))
}

func TestTerminateWaits(t *testing.T) {
	s := newScene(t)
	target := Target{ID: newID(t)}
	pid := s.start(Marker(target.ID), "stopped").Process.Pid
	require.NoError(t, awaitState(pid, 'T'))
	assert.False(t, target.Terminate(time.Millisecond), "the signal is pending while it is stopped")
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	assert.True(t, target.Terminate(gone))
}

func TestProcessWithoutItsMainThreadIsAlive(t *testing.T) {
	s := newScene(t)
	target := Target{ID: newID(t)}
	pid := s.start(Marker(target.ID), "headless").Process.Pid
	require.NoError(t, awaitState(pid, 'Z'))
	assert.Equal(t, []int{pid}, mustFind(t, target))
	require.Empty(t, target.KillAll(gone))
	assert.False(t, alive(pid))
}

func TestSignalMissesAnotherProcessWithTheSamePid(t *testing.T) {
	s := newScene(t)
	pid := s.start("", "sleeper").Process.Pid
	p, err := Describe(pid)
	require.NoError(t, err)
	sweep, err := Target{}.begin()
	require.NoError(t, err)
	defer sweep.close()

	earlier := p
	earlier.Start--
	assert.False(t, sweep.signal(earlier, unix.SIGKILL))
	assert.True(t, sweep.awaitOne(earlier, time.Now()), "what had the pid before is gone")
	assert.False(t, sweep.awaitOne(p, time.Now()))
	assert.True(t, alive(pid))
	assert.True(t, sweep.signal(p, unix.SIGKILL))
	assert.True(t, sweep.awaitOne(p, time.Now().Add(gone)))
}

// Without free descriptors nothing counts as gone.
func TestSweepWithoutDescriptors(t *testing.T) {
	s := newScene(t)
	p, err := Describe(s.start("", "sleeper").Process.Pid)
	require.NoError(t, err)
	target := Target{Sessions: []Session{{SID: p.PID}}}
	sweep, err := target.begin()
	require.NoError(t, err)
	defer sweep.close()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}, nil))
	restore := func() { _ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil) }
	found, err := sweep.find()
	proves := sweep.conclusive()
	exited := p.Signal(unix.SIGCONT)
	time.AfterFunc(time.Millisecond, restore)
	left := target.KillAll(gone)
	restore()
	assert.ErrorIs(t, err, unix.EMFILE, found)
	assert.False(t, proves)
	assert.ErrorIs(t, exited, unix.EMFILE)
	assert.Empty(t, left)
	assert.False(t, alive(p.PID))
}

// The ID of an empty session may be reused by an unrelated process.
func TestSessionOfAReapedRank(t *testing.T) {
	const rank = 100
	sweep := func() *sweep {
		s, err := Target{Sessions: []Session{{SID: rank, Since: 10, Until: 50}}}.begin()
		require.NoError(t, err)
		t.Cleanup(s.close)
		return s
	}
	young := Proc{PID: 300, SID: rank, Start: 51, State: 'S'}
	tests := []struct {
		name string
		seen []Proc // seen before
		p    Proc
		want verdict
	}{
		{"another session", nil, Proc{PID: 1, SID: 101, Start: 20}, foreign},
		{"no session", nil, Proc{PID: 1, Start: 20}, foreign},
		{"older than the rank", nil, Proc{PID: 1, SID: rank, Start: 9}, foreign},
		{"from the rank's time", nil, Proc{PID: 1, SID: rank, Start: 50}, ours},
		{"from later", nil, young, pending},
		{"another process that leads the session", nil, Proc{PID: rank, SID: rank, Start: 60}, pending},
		{"from later, beside one from the rank's time", []Proc{{PID: 2, SID: rank, Start: 49}}, young, ours},
		{"from later, beside a zombie from the rank's time", []Proc{{PID: 2, SID: rank, Start: 49, State: 'Z'}}, young, ours},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sweep()
			for _, p := range tt.seen {
				s.bySession(p)
			}
			got := s.bySession(tt.p)
			if got == pending && s.held[rank] {
				got = ours
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestScanDecidesDoubtfulSessionsInTheEnd(t *testing.T) {
	s := newScene(t)
	rank := s.start("", "rank", "plain").Process.Pid
	s.eventuallyCount(2)
	p, err := Describe(rank)
	require.NoError(t, err)
	assert.Len(t, mustFind(t, Target{Sessions: []Session{{SID: rank, Until: p.Start}}}), 2,
		"the child is held to the session by the rank")
	assert.Empty(t, mustFind(t, Target{Sessions: []Session{{SID: rank, Until: p.Start - 1}}}),
		"all began after the session may have become another one")
}

// A process of another user is left alone in any session, except by root: ranks may change their user.
func TestOtherUsersProcesses(t *testing.T) {
	testneeds.Root(t)
	s := newScene(t)
	const mine, other = 54321, 54322
	as := func(uid uint32, role string, args ...string) *scene {
		cmd := inSession(command(role, s.token, args...))
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
		out, err := cmd.Output()
		require.NoError(t, err)
		s.Logf("as %d: %s", uid, out)
		assert.Equal(t, "0 <nil>\n", string(out))
		return &s
	}
	victim := inSession(command("sleeper", s.token))
	victim.SysProcAttr.Credential = &syscall.Credential{Uid: other, Gid: other}
	job := newID(t)
	s.run(Marker(job), victim)
	s.eventuallyCount(1)

	as(mine, "finder", strconv.Itoa(victim.Process.Pid))
	// a marker in its environment neither delays nor misleads a sweep
	as(mine, "finder", strconv.Itoa(victim.Process.Pid), job)
	assert.True(t, alive(victim.Process.Pid))
	target := Target{Sessions: []Session{{SID: victim.Process.Pid}}}
	assert.Len(t, mustFind(t, target), 1)
	assert.Empty(t, target.KillAll(gone))
}
