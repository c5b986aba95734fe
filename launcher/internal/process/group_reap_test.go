package process_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
)

// Reaped ranks leave nothing, and the others continue.
func TestReap(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		ranks := []process.Rank{piped(0), piped(1), piped(2)}
		for i := range ranks[:2] {
			ranks[i] = exits(ranks[i], i)
		}
		require.NoError(t, g.Start(process.Common{Path: "/bin/sleep", Argv: []string{"sleep", "600"}, Sockets: true}, ranks))
		g.await(ranks[0])
		g.await(ranks[1])
		pid := g.story(0).pid
		require.NoError(t, syscall.Kill(pid, 0), "a zombie")
		g.Reap([]int{0, 2, 9})
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		require.ErrorIs(t, g.Signal(0, syscall.SIGTERM), process.ErrNotStarted)
		require.NoError(t, syscall.Kill(g.story(1).pid, 0), "the job did not end it")

		again := exits(piped(0), 7)
		g.forget(0)
		require.NoError(t, g.Start(process.Common{}, []process.Rank{again}), "its id is free")
		g.await(again)
		assert.Equal(t, 7, g.story(0).status.Code)
		g.Reap([]int{0, 0, 1})
		require.NoError(t, g.Signal(2, syscall.SIGTERM))
		g.await(ranks[2])
		assert.Equal(t, syscall.SIGTERM, g.story(2).status.Signal)
		require.NoError(t, g.Close())
		g.Reap([]int{2})
	})
}

// IDs of ranks that could not be started can be used again.
func TestRanksThatWereNotStartedAreForgotten(t *testing.T) {
	g := newGroup(t, 0)
	r := piped(0)
	require.Error(t, g.Start(process.Common{Path: "/does/not/exist", Argv: []string{"x"}}, []process.Rank{r}))
	g.run(nil, exits(r, 3))
	assert.Equal(t, 3, g.story(0).status.Code)
}

func exits(r process.Rank, code int) process.Rank {
	r.Path, r.Argv = self, role("exit", strconv.Itoa(code))
	return r
}
