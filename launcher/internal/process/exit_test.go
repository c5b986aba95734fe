package process

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exits is a Sink that forwards exit statuses.
type exits chan Status

func (exits) Started(int, int)                      {}
func (exits) BindFailed(int, BindError)             {}
func (exits) Output(int, int, []byte)               {}
func (exits) Closed(int, int)                       {}
func (exits) SocketReadable(int, int)               {}
func (e exits) Exited(_ int, s Status, _ time.Time) { e <- s }

// Before Linux 5.2 clone returns no pidfd, and before 5.3 pidfds cannot be polled.
func TestExitIsNoticedWithoutPidfd(t *testing.T) {
	sink := make(exits, 1)
	g := NewGroup(sink)
	spawners, err := g.threadsFor(1)
	require.NoError(t, err)

	child := exec.Command("/bin/false")
	require.NoError(t, child.Start())
	s := spawners[0]
	r := &rank{pidfd: -1, end: [numStreams]int32{-1, -1, -1}}
	r.pid.Store(int32(child.Process.Pid))
	s.ranks = append(s.ranks, r)
	s.alive++
	s.watchExit(r)

	assert.Equal(t, Status{Code: 1}, <-sink)
	require.NoError(t, g.Close())
	assert.Error(t, child.Wait(), "it was reaped by Close")
}
