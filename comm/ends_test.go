package comm_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

// The end of a context affects neither a call that is done nor the next call, whenever it happens.
func TestContextEndsBesideCalls(t *testing.T) {
	for survived := 0; survived < 300; {
		groups := open(t, 2)
		var failed error
		for failed == nil && survived < 300 {
			ctx, cancel := context.WithCancel(t.Context())
			failed = errors.Join(each(groups, func(_ context.Context, g *comm.Group) error {
				if g.Rank() == 1 { // rank 1 arrives and rank 0's context ends at the same time
					go cancel()
					return barrier(context.Background(), g)
				}
				return barrier(ctx, g)
			})...)
			if failed == nil {
				survived++
				require.NoError(t, errors.Join(each(groups, allReduce[int32](100_000, comm.Sum))...))
			}
		}
	}
}

func TestContextEnds(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, g *comm.Group) error{
		"barrier": barrier, "large": allReduce[int32](100_000, comm.Sum),
		"receive": func(ctx context.Context, g *comm.Group) error {
			return comm.Recv(ctx, g, make([]int32, 1), 1)
		},
		"monitored": func(ctx context.Context, g *comm.Group) error { return g.MonitoredBarrier(ctx, patience) },
		"split":     func(ctx context.Context, g *comm.Group) error { _, err := g.Split(ctx, 0, 0); return err },
		"allocate":  func(ctx context.Context, g *comm.Group) error { _, err := comm.Allocate[int8](ctx, g, 1); return err },
		"async": func(ctx context.Context, g *comm.Group) error {
			return comm.BarrierAsync(ctx, g).Wait()
		},
	} {
		for _, rank := range []int{0, 2} {
			t.Run(name, func(t *testing.T) {
				groups := open(t, 3)
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("the user had enough")
				over := make(chan error, 1)
				go func() { over <- act(ctx, groups[rank]) }()
				cancel(why)
				require.ErrorIs(t, <-over, why)
				require.ErrorIs(t, barrier(t.Context(), groups[rank]), why)
				for i, g := range groups {
					if i != rank {
						require.ErrorContains(t, barrier(t.Context(), g), "the user had enough")
					}
				}
				for _, g := range groups {
					require.NoError(t, g.Close())
					require.ErrorIs(t, barrier(t.Context(), g), comm.ErrClosed)
				}
			})
		}
	}
}

func TestCloseWhileOthersWait(t *testing.T) {
	for name, act := range map[string]caller{
		"barrier": barrier, "large": allReduce[float64](100_000, comm.Sum), "rooted": broadcast(4, 2),
		"large rooted": broadcast(100_000, 2),
		"split":        func(ctx context.Context, g *comm.Group) error { _, err := g.Split(ctx, 0, 0); return err },
		"allocate": func(ctx context.Context, g *comm.Group) error {
			_, err := comm.Allocate[int8](ctx, g, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			groups := open(t, 3)
			failed := each(groups, func(ctx context.Context, g *comm.Group) error {
				if g.Rank() == 2 {
					return g.Close()
				}
				return act(ctx, g)
			})
			require.NoError(t, failed[2])
			for _, err := range failed[:2] {
				var lost *comm.PeerError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, 2, lost.Rank)
				require.Equal(t, "it closed the group", lost.How)
			}
		})
	}
}

// A rank whose call is complete gets no error when another rank leaves.
func TestLeavingAfterTheLastCall(t *testing.T) {
	for name, act := range map[string]caller{
		"barrier": barrier, "small": allReduce[float32](5, comm.Sum), "large": allReduce[float64](200_000, comm.Sum),
		"broadcast":       broadcast(300_000, 0),
		"small broadcast": broadcast(3, 0), "gather": gather(70_000, 0), "scatter": scatter(70_000, 1),
		"all-to-all": allToAll(70_000),
		"reduce":     reduce(70_000, 1), "all-gather": allGather(70_000), "V": allGatherV(5000, 70_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{2, 3, 4} {
				for range testneeds.Count(2, 20) {
					failed := each(open(t, n), func(ctx context.Context, g *comm.Group) error {
						return errors.Join(act(ctx, g), g.Close())
					})
					require.NoError(t, errors.Join(failed...))
				}
			}
		})
	}
}

// A timeout names exactly the late ranks.
func TestLateRanks(t *testing.T) {
	for name, act := range map[string]caller{
		"barrier": barrier, "large": allReduce[float64](100_000, comm.Sum),
		"monitored": func(ctx context.Context, g *comm.Group) error { return g.MonitoredBarrier(ctx, limit) },
		"allocate":  func(ctx context.Context, g *comm.Group) error { _, err := comm.Allocate[int8](ctx, g, 1); return err },
		"split":     func(ctx context.Context, g *comm.Group) error { _, err := g.Split(ctx, 0, 0); return err },
	} {
		for _, late := range [][]int{{0}, {3}, {1, 2}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				failed := each(open(t, 4, comm.WithTimeout(limit)), func(ctx context.Context, g *comm.Group) error {
					if slices.Contains(late, g.Rank()) {
						return nil
					}
					return act(ctx, g)
				})
				for rank, err := range failed {
					var timeout *comm.TimeoutError
					if !slices.Contains(late, rank) {
						require.ErrorAs(t, err, &timeout)
						require.Equal(t, late, timeout.Ranks)
					}
				}
			})
		}
	}
}

// Rank 0 waits for 1, 1 waits for 2, 2 waits for 3, and 3 does not arrive.
func TestTransitiveWaits(t *testing.T) {
	failed := each(open(t, 4, comm.WithTimeout(limit)), func(ctx context.Context, g *comm.Group) error {
		if g.Rank() == 3 {
			return nil
		}
		return comm.Recv(ctx, g, make([]byte, 1), g.Rank()+1)
	})
	for _, err := range failed[:3] {
		var timeout *comm.TimeoutError
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, []int{3}, timeout.Ranks)
	}
}
