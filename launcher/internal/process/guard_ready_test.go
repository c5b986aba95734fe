package process

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPreparedGuard(t *testing.T) {
	s := newScene(t)
	var inherited [2]int // without close-on-exec
	require.NoError(t, unix.Pipe(inherited[:]))
	t.Cleanup(func() { _, _ = unix.Close(inherited[0]), unix.Close(inherited[1]) })
	g := startGuard(t, GuardConfig{ID: newID(t)})
	g.AddRank(noPID)
	before := g.PID()
	require.NoError(t, g.Prepare())
	require.NotEqual(t, before, g.PID())
	require.Equal(t, unix.ESRCH, unix.Kill(before, 0), "the guard before is gone")
	s.eventually(func() bool {
		threads, _ := os.ReadDir(procFile(g.PID(), "task"))
		return len(threads) > guardThreads && ignored(t, g.PID(), unix.SIGTERM) && openPipes(t, g.PID()) == 2
	}, "guard with all its threads, deaf, holding nothing that we were given")

	for _, sig := range ignoredSignals {
		assert.True(t, ignored(t, g.PID(), sig), "signal %d", sig)
		require.NoError(t, unix.Kill(g.PID(), sig))
	}
	p, err := Describe(g.PID())
	require.NoError(t, err)
	assert.Equal(t, guardName, p.Name)
	assert.Equal(t, g.PID(), p.SID, "its own session")
	environ, err := os.ReadFile(procFile(g.PID(), "environ"))
	require.NoError(t, err)
	assert.Empty(t, strings.TrimRight(string(environ), "\x00"), "secrets in our environment stay with us")
	g.AddRank(noPID + 1)
	assert.NoError(t, g.process.writeErr)

	died, prepared := g.Died(), g.PID()
	require.NoError(t, unix.Kill(prepared, unix.SIGKILL))
	<-died
	require.NoError(t, g.Replace())
	g.AddRank(noPID + 2)
	assert.NoError(t, g.process.writeErr)
	g.Dismiss()
	require.NoError(t, g.Prepare(), "no earlier guard exists")
	assert.Zero(t, g.PID())
	assert.False(t, HasChildren())
}

// ignored reports whether a process ignores a signal.
func ignored(t *testing.T, pid int, sig unix.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(procFile(pid, "status"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "SigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	require.NoError(t, err)
	return mask>>(sig-1)&1 == 1
}

// openPipes returns the number of a process's descriptors that are pipes. Others may close during the search.
func openPipes(t *testing.T, pid int) (pipes int) {
	t.Helper()
	entries, err := os.ReadDir(procFile(pid, "fd"))
	require.NoError(t, err)
	for _, e := range entries {
		if file, _ := os.Readlink(procFile(pid, "fd/"+e.Name())); strings.HasPrefix(file, "pipe:") {
			pipes++
		}
	}
	return pipes
}
