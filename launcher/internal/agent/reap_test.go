package agent

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/stacks"
	"gorun/launcher/internal/wire"
)

// Spawned ranks that have ended leave neither a process nor any record.
func TestSpawnedRanksThatHaveEnded(t *testing.T) {
	j, received := growableJob(t)
	var pids []int
	for number := range 3 {
		require.NoError(t, j.grow(growBy(number, "/bin/true", 10+2*number, 11+2*number)))
		grown := next[wire.Grown](t, received)
		require.Empty(t, grown.Error)
		for _, r := range grown.Ranks {
			pids = append(pids, r.PID)
		}
	}
	require.Len(t, pids, 6)
	eventually(t, func() bool { return len(j.rows()) == 1 }, "only the first rank is on the roster")
	for _, pid := range pids {
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
	assert.Len(t, j.sessions().Sessions, 0, "a sweep spares other processes with a reused number")
	assert.Empty(t, j.guard.Guarded().Ranks, "nor does the guard")
	j.endings.mu.Lock()
	assert.Zero(t, j.endings.exited)
	j.endings.mu.Unlock()
	assert.True(t, j.open.await(0))
	main, err := process.Describe(os.Getpid())
	require.NoError(t, err)
	seen := &inspection{Activity: spec.Activity{Rank: 10}, main: main, program: stacks.Go}
	assert.Nil(t, j.newStackQuery(seen), "an inspection began before it had ended")
}

// A rank that has left a process in its session is not reaped, so that a sweep finds the process.
func TestSpawnedRankThatLeftAProcess(t *testing.T) {
	j, received := growableJob(t)
	g := growBy(1, "/bin/sh", 10, 11)
	g.Programs[0].Args = []string{"-c", `test "$LEAVE" || exec true; sleep 600 >/dev/null 2>&1 & exit 0`}
	g.Ranks[0].Env = []string{"LEAVE=1"}
	require.NoError(t, j.grow(g))
	grown := next[wire.Grown](t, received)
	require.Empty(t, grown.Error)
	eventually(t, func() bool { return len(j.rows()) == 2 }, "one of the two is gone")
	require.NotNil(t, j.rank(10))
	require.Len(t, j.sessions().Sessions, 1)
	assert.Equal(t, grown.Ranks[0].PID, j.sessions().Sessions[0].SID)
	assert.Empty(t, j.sessions().KillAll(killTimeout))
	require.NoError(t, j.grow(growBy(2, "/bin/true", 12)))
	eventually(t, func() bool { return len(j.rows()) == 1 }, "the next end has the other one looked at again")
}

// While ranks are being killed or the job ends, no rank is reaped: a sweep may be using the session IDs.
func TestNoRankIsReapedWhileTheJobIsKilled(t *testing.T) {
	for what, begin := range map[string]func(j *job){
		"killed": func(j *job) { j.signals.mu.Lock(); j.signals.killed.Store(true); j.signals.mu.Unlock() },
		"ends":   func(j *job) { j.startGate.Lock(); j.startGate.closed = true; j.startGate.Unlock() },
	} {
		t.Run(what, func(t *testing.T) {
			j, received := growableJob(t)
			j.reapScheduled.Store(true) // disables other checks
			require.NoError(t, j.grow(growBy(1, "/bin/sleep", 10)))
			require.NotEmpty(t, next[wire.Grown](t, received).Ranks, "without an argument it ends at once")
			r := j.rank(10)
			eventually(t, func() bool { return r.isReapable() }, "it has ended")
			begin(j)
			j.reap(map[int]bool{int(r.pid.Load()): true})
			assert.Len(t, j.rows(), 2)
			assert.NoError(t, syscall.Kill(int(r.pid.Load()), 0), "a zombie")
		})
	}
}

// Ranks that could not be started leave no row, and no stream that delays the end.
func TestRanksThatCouldNotBeStarted(t *testing.T) {
	j, received := growableJob(t)
	g := growBy(1, "/bin/true", 10, 11)
	g.Programs = append(g.Programs, spec.Command{Name: "/bin/true", Dir: "/does/not/exist"})
	g.Ranks[1].App = 1
	require.NoError(t, j.grow(g))
	grown := next[wire.Grown](t, received)
	assert.Contains(t, grown.Error, "/does/not/exist")
	eventually(t, func() bool { return len(j.rows()) == 1 }, fmt.Sprint(grown.Ranks))
	assert.True(t, j.open.await(0))
	require.NoError(t, j.grow(growBy(2, "/bin/true", 11)))
	assert.Empty(t, next[wire.Grown](t, received).Error, "its number is free")
}
