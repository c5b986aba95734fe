package process

import (
	"os"
	"strings"
	"syscall"
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
	g := startGuardBy(t, guardWays, GuardConfig{ID: newID(t)})
	require.NoError(t, g.AddRank(nobody))
	before := g.pid
	require.NoError(t, g.Prepare())
	require.NotEqual(t, before, g.pid)
	require.Equal(t, unix.ESRCH, unix.Kill(before, 0), "the guard before is gone")
	s.eventually(func() bool {
		threads, _ := os.ReadDir(procFile(g.pid, "task"))
		p, _ := Describe(g.pid)
		return len(threads) > guardThreads && p.Name == guardName
	}, "guard with all its threads")

	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGTSTP} {
		require.NoError(t, unix.Kill(g.pid, sig))
	}
	p, err := Describe(g.pid)
	require.NoError(t, err)
	assert.Equal(t, g.pid, p.SID, "its own session")
	pipes := 0
	for _, file := range descriptorsOf(t, g.pid) {
		if strings.HasPrefix(file, "pipe:") {
			pipes++
		}
	}
	assert.Equal(t, 1, pipes, "it holds nothing that we were given")
	environ, err := os.ReadFile(procFile(g.pid, "environ"))
	require.NoError(t, err)
	assert.Empty(t, strings.TrimRight(string(environ), "\x00"), "secrets in our environment are nobody else's")
	assert.NoError(t, g.AddRank(nobody+1))

	died, prepared := g.Died(), g.pid
	require.NoError(t, unix.Kill(prepared, unix.SIGKILL))
	<-died
	require.NoError(t, g.Replace())
	assert.NoError(t, g.AddRank(nobody+2))
	g.Dismiss()
	require.NoError(t, g.Prepare(), "there is none to take over from")
	assert.Zero(t, g.pid)
	assert.False(t, HasChildren())
}
