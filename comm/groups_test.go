package comm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/comm/commtest"
	"gorun/rendezvous/tcpstore"
)

// patience is the timeout of groups that should not time out.
const patience = time.Minute

// store starts a store for the ranks of a test.
func store(t testing.TB) (address string) {
	t.Helper()
	server, err := tcpstore.Listen(tcpstore.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server.Addr().String()
}

// opened counts the groups, for unique names.
var opened atomic.Int64

// open returns a new group of n ranks, each joined in its own goroutine.
func open(t *testing.T, n int, options ...comm.Option) []*comm.Group {
	t.Helper()
	return openAt(t, store(t), n, options...)
}

func openAt(t *testing.T, address string, n int, options ...comm.Option) []*comm.Group {
	t.Helper()
	return openEach(t, address, n, func(int) []comm.Option { return options })
}

// openEach is open with options for each rank.
func openEach(t *testing.T, address string, n int, options func(rank int) []comm.Option) []*comm.Group {
	t.Helper()
	name := fmt.Sprint("test ", opened.Add(1))
	groups, failed := make([]*comm.Group, n), make([]error, n)
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			all := append([]comm.Option{
				comm.WithRank(rank, n), comm.WithStore(address), comm.WithName(name),
				comm.WithTimeout(patience),
			}, options(rank)...)
			groups[rank], failed[rank] = comm.Join(t.Context(), all...)
		})
	}
	ranks.Wait()
	t.Cleanup(func() {
		for _, g := range groups {
			if g != nil {
				require.NoError(t, g.Close())
			}
		}
	})
	require.NoError(t, errors.Join(failed...))
	return groups
}

// each runs act on every rank at the same time and returns the errors by rank.
func each(groups []*comm.Group, act func(ctx context.Context, g *comm.Group) error) []error {
	failed := make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() { failed[i] = act(context.Background(), g) })
	}
	ranks.Wait()
	return failed
}

func TestCPU(t *testing.T) {
	commtest.Run(t, func(t *testing.T, n int) []*comm.Group { return open(t, n, comm.WithBackend("cpu")) })
}

// Each rank is on its own host. If several share one, 16-bit sums are rounded there too; comm/internal/cpu/ctest tests
// this.
func TestHosts(t *testing.T) {
	t.Parallel()
	commtest.Run(t, func(t *testing.T, n int) []*comm.Group {
		return openEach(t, store(t), n, func(rank int) []comm.Option {
			return []comm.Option{
				comm.WithBackend("cpu"), comm.WithKey(bytes.Repeat([]byte("k"), 32)),
				comm.WithHost(fmt.Sprint(rank)),
			}
		})
	})
}
