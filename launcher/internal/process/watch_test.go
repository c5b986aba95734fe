package process

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A rank whose output nobody could watch would hang once its pipe is full, so it is not started.
func TestRankThatCannotBeWatched(t *testing.T) {
	s := &spawner{g: &Group{}, ep: -1} // without an epoll each watch fails
	common := Common{Path: "/bin/true", Argv: []string{"true"}}
	img, err := newImage(common)
	require.NoError(t, err)
	b := &batch{common: common, image: img, ranks: make([]rank, 1)}
	r := &b.ranks[0]
	r.Rank = Rank{ID: 3, Stdout: Stream{Kind: Pipe}}
	r.end, r.pidfd = [numStreams]int32{-1, -1, -1}, -1
	failed := s.start(b, r)
	require.ErrorIs(t, failed, syscall.EBADF)
	require.Equal(t, opWatch, failed.Op)
	require.Empty(t, s.ranks)
	require.Equal(t, [numStreams]int32{-1, -1, -1}, r.end)
	require.EqualError(t, b.failure(r, opWatch, "", unix.ENOSPC), "start rank 3: watch its output: no space left on "+
		"device: this user's limit of watched descriptors is reached (sysctl fs.epoll.max_user_watches)")
}
