package comm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// A caller makes one call on a rank.
type caller func(ctx context.Context, g *comm.Group) error

func allReduce[T comm.Number](n int, op comm.Op) caller {
	return func(ctx context.Context, g *comm.Group) error {
		data := make([]T, n)
		return comm.AllReduce(ctx, g, data, data, op)
	}
}

func broadcast(n, root int) caller {
	return func(ctx context.Context, g *comm.Group) error { return comm.Broadcast(ctx, g, make([]int32, n), root) }
}

func reduce(n, root int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		data := make([]int32, n)
		return comm.Reduce(ctx, g, data, data, comm.Sum, root)
	}
}

func gather(n, root int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		return comm.Gather(ctx, g, make([]int32, n), make([]int32, n*g.Size()), root)
	}
}

func scatter(n, root int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		return comm.Scatter(ctx, g, make([]int32, n*g.Size()), make([]int32, n), root)
	}
}

func allGather(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		return comm.AllGather(ctx, g, make([]int32, n), make([]int32, n*g.Size()))
	}
}

func allToAll(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		return comm.AllToAll(ctx, g, make([]int32, n*g.Size()), make([]int32, n*g.Size()))
	}
}

// allGatherV uses these counts for ranks 0 and 1, and 0 for all others.
func allGatherV(first, second int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		counts := make([]int, g.Size())
		counts[0], counts[1] = first, second
		return comm.AllGatherV(ctx, g, make([]int32, counts[g.Rank()]), make([]int32, first+second), counts)
	}
}

func barrier(ctx context.Context, g *comm.Group) error { return comm.Barrier(ctx, g) }

func TestMismatch(t *testing.T) {
	const large = 50_000
	for name, row := range map[string]struct {
		odd, others      caller
		saysOdd, saysAll string
	}{
		"kind":              {allReduce[int32](1, comm.Sum), barrier, "AllReduce of 1 int32 (sum)", "Barrier"},
		"kind, one large":   {allReduce[int32](large, comm.Sum), barrier, "AllReduce of 50000 int32 (sum)", "Barrier"},
		"kind, other large": {barrier, allReduce[int32](large, comm.Sum), "Barrier", "AllReduce of 50000 int32 (sum)"},
		"kind, both large": {
			allGather(large), allReduce[int32](large, comm.Sum), "AllGather of 50000 int32", "AllReduce of 50000",
		},
		"kind, all-to-all": {allToAll(large), allGather(large), "AllToAll of 50000", "AllGather of 50000"},
		"type": {
			allReduce[float32](2, comm.Sum), allReduce[int32](2, comm.Sum), "AllReduce of 2 float32 (sum)", "2 int32",
		},
		"type, large": {
			allReduce[float32](large, comm.Sum), allReduce[int32](large, comm.Sum), "50000 float32", "50000 int32",
		},
		"count": {
			allReduce[int32](3, comm.Sum), allReduce[int32](4, comm.Sum), "of 3 int32", "of 4 int32",
		},
		"count, large": {
			allReduce[int32](large+1, comm.Sum), allReduce[int32](large, comm.Sum), "of 50001 int32", "of 50000 int32",
		},
		"count, small and large": {
			allReduce[int32](large, comm.Sum), allReduce[int32](4, comm.Sum), "of 50000 int32", "of 4 int32",
		},
		"count, none": {
			allReduce[int32](0, comm.Sum), allReduce[int32](4, comm.Sum), "of 0 int32", "of 4 int32",
		},
		"op":                      {allReduce[int32](4, comm.Max), allReduce[int32](4, comm.Sum), "(max)", "(sum)"},
		"op, large":               {allReduce[int32](large, comm.Max), allReduce[int32](large, comm.Sum), "(max)", "(sum)"},
		"root of a broadcast":     {broadcast(4, 1), broadcast(4, 0), "from rank 1", "from rank 0"},
		"root of a large one":     {broadcast(large, 1), broadcast(large, 0), "from rank 1", "from rank 0"},
		"root of a reduce":        {reduce(4, 1), reduce(4, 0), "to rank 1", "to rank 0"},
		"root of a large reduce":  {reduce(large, 1), reduce(large, 0), "to rank 1", "to rank 0"},
		"root of a gather":        {gather(4, 1), gather(4, 0), "to rank 1", "to rank 0"},
		"root of a large gather":  {gather(large, 1), gather(large, 0), "to rank 1", "to rank 0"},
		"root of a scatter":       {scatter(4, 1), scatter(4, 0), "from rank 1", "from rank 0"},
		"root of a large scatter": {scatter(large, 1), scatter(large, 0), "from rank 1", "from rank 0"},
		"broadcast's count":       {broadcast(5, 0), broadcast(4, 0), "Broadcast of 5", "Broadcast of 4"},
		"broadcast's large count": {broadcast(large+1, 0), broadcast(large, 0), "Broadcast of 50001", "Broadcast of 50000"},
		"broadcast, not reduce":   {broadcast(4, 0), reduce(4, 0), "Broadcast of 4", "Reduce of 4"},
		"counts of the same sum": {
			allGatherV(3000, 1000), allGatherV(2000, 2000), "AllGatherV of 4000", "AllGatherV of 4000",
		},
		"counts of different sums": {
			allGatherV(3000, 1001), allGatherV(2000, 2000), "AllGatherV of 4001", "AllGatherV of 4000",
		},
	} {
		for _, n := range []int{2, 4} {
			for _, odd := range []int{0, n - 1} {
				t.Run(fmt.Sprintf("%s/%d of %d", name, odd, n), func(t *testing.T) {
					t.Parallel()
					mismatch(t, n, odd, row.odd, row.others, row.saysOdd, row.saysAll)
				})
			}
		}
	}
}

// mismatch makes rank odd call oddCall and all others call. Ranks whose call does not wait get the error in the next
// barrier.
func mismatch(t *testing.T, n, odd int, oddCall, call caller, saysOdd, saysAll string) {
	groups := open(t, n)
	failed := each(groups, func(ctx context.Context, g *comm.Group) error {
		act := call
		if g.Rank() == odd {
			act = oddCall
		}
		if err := barrier(ctx, g); err != nil {
			return err
		}
		if err := act(ctx, g); err != nil {
			return err
		}
		return barrier(ctx, g)
	})
	for rank, err := range failed {
		var m *comm.MismatchError
		require.ErrorAs(t, err, &m, "rank %d", rank)
		require.EqualValues(t, 2, m.Sequence)
		require.NotEqual(t, m.RankA, m.RankB)
		require.Contains(t, []int{m.RankA, m.RankB}, odd, "%v", err)
		saysA, saysB := saysOdd, saysAll
		if m.RankB == odd {
			saysA, saysB = saysB, saysA
		}
		require.Contains(t, m.CallA, saysA)
		require.Contains(t, m.CallB, saysB)
		again := barrier(t.Context(), groups[rank])
		require.ErrorAs(t, again, &m)
		require.True(t, strings.HasPrefix(again.Error(), "comm: the group failed before: "), "%v", again)
	}
}

func TestMessageMismatch(t *testing.T) {
	send := func(n int) caller {
		return func(ctx context.Context, g *comm.Group) error { return comm.Send(ctx, g, make([]int32, n), 1) }
	}
	recv := func(n int) caller {
		return func(ctx context.Context, g *comm.Group) error { return comm.Recv(ctx, g, make([]int32, n), 0) }
	}
	floats := func(ctx context.Context, g *comm.Group) error { return comm.Recv(ctx, g, make([]float32, 5), 0) }
	for name, row := range map[string]struct {
		send, recv caller
		sent, want string
	}{
		"count":         {send(3), recv(4), "Send of 3 int32 to rank 1", "Recv of 4 int32 from rank 0"},
		"type":          {send(5), floats, "Send of 5 int32", "Recv of 5 float32"},
		"large count":   {send(30_000), recv(30_001), "Send of 30000", "Recv of 30001"},
		"small, large":  {send(3), recv(30_001), "Send of 3 ", "Recv of 30001"},
		"larger ring":   {send(3_000_000), recv(3_000_001), "Send of 3000000", "Recv of 3000001"},
		"large, smalll": {send(30_000), recv(3), "Send of 30000", "Recv of 3 "},
	} {
		t.Run(name, func(t *testing.T) {
			failed := each(open(t, 2), func(ctx context.Context, g *comm.Group) error {
				return errors.Join([]caller{row.send, row.recv}[g.Rank()](ctx, g), barrier(ctx, g))
			})
			for _, err := range failed {
				var m *comm.MismatchError
				require.ErrorAs(t, err, &m)
				require.Equal(t, []int{1, 0}, []int{m.RankA, m.RankB})
				require.Contains(t, m.CallA, row.want)
				require.Contains(t, m.CallB, row.sent)
			}
		})
	}
}

func send(n, to int) caller {
	return func(ctx context.Context, g *comm.Group) error { return comm.Send(ctx, g, make([]int32, n), to) }
}

func recv(n, from int) caller {
	return func(ctx context.Context, g *comm.Group) error { return comm.Recv(ctx, g, make([]int32, n), from) }
}

// Two calls that wait for each other and never match fail long before the timeout.
func TestCallsThatNeverMeet(t *testing.T) {
	const large = 3_000_000 // larger than a ring buffer, so that Send waits for its receiver
	both := func(first, second caller) []caller { return []caller{first, second} }
	for name, row := range map[string]struct {
		calls []caller // by rank
		odd   int      // the rank that every error names
		says  map[int]string
	}{
		"AllReduce, Recv": {
			both(allReduce[int32](1, comm.Sum), recv(1, 0)), 1,
			map[int]string{0: "AllReduce of 1 int32 (sum)", 1: "Recv of 1 int32 from rank 0"},
		},
		"Recv, Barrier": {both(recv(7, 1), barrier), 0, map[int]string{0: "Recv of 7 int32 from rank 1", 1: "Barrier"}},
		"Send, AllReduce": {
			both(send(large, 1), allReduce[int32](large, comm.Max)), 0,
			map[int]string{0: "Send of 3000000 int32 to rank 1", 1: "AllReduce of 3000000 int32 (max)"},
		},
		"Barrier, Send": {
			both(barrier, send(large, 0)), 1, map[int]string{0: "Barrier", 1: "Send of 3000000 int32 to rank 0"},
		},
		"SendRecv": {
			both(circle(3), allGather(3)), 0, map[int]string{0: "SendRecv of 3 int32 to rank 1", 1: "AllGather of 3 int32"},
		},
		"two Sends": {
			both(send(large, 1), send(large, 0)), 0,
			map[int]string{0: "Send of 3000000 int32 to rank 1", 1: "Send of 3000000 int32 to rank 0"},
		},
		"two Recvs": {
			both(recv(2, 1), recv(2, 0)), 1, map[int]string{0: "Recv of 2 int32 from rank 1", 1: "Recv of 2 int32 from rank 0"},
		},
		"AllReduce of four, Recv": {
			[]caller{
				allReduce[int32](large, comm.Sum), allReduce[int32](large, comm.Sum), recv(1, 3),
				allReduce[int32](large, comm.Sum),
			},
			2,
			map[int]string{0: "AllReduce of 3", 1: "AllReduce of 3", 2: "Recv of 1 int32 from rank 3", 3: "AllReduce of 3"},
		},
		"Recvs of three in a circle": {
			[]caller{recv(1, 1), recv(1, 2), recv(1, 0)}, -1, map[int]string{0: "Recv", 1: "Recv", 2: "Recv"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := each(open(t, len(row.calls)), func(ctx context.Context, g *comm.Group) error {
				return errors.Join(barrier(ctx, g), row.calls[g.Rank()](ctx, g))
			})
			for rank, err := range failed {
				var m *comm.MismatchError
				require.ErrorAs(t, err, &m, "rank %d", rank)
				require.NotEqual(t, m.RankA, m.RankB)
				require.Contains(t, []int{m.RankA, m.RankB, -1}, row.odd, "%v", err)
				require.Contains(t, m.CallA, row.says[m.RankA])
				require.Contains(t, m.CallB, row.says[m.RankB])
			}
		})
	}
}
