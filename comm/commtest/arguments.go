package commtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorun/comm"
)

// argumentErrors checks that a rank rejects invalid arguments with a reason and that the group stays usable.
func argumentErrors(t *testing.T, open Open) {
	for _, n := range []int{1, 3} {
		each(t, open(t, n), func(ctx context.Context, g *comm.Group) error {
			for _, row := range wrongCalls(ctx, g) {
				var refused *comm.ArgumentError
				if !errors.As(row.err, &refused) || !strings.Contains(row.err.Error(), row.says) {
					return fmt.Errorf("wanted %q, got %w", row.says, row.err)
				}
			}
			one := []int64{int64(g.Rank())}
			if err := comm.AllReduce(ctx, g, one, one, comm.Max); err != nil || one[0] != int64(n-1) {
				return fmt.Errorf("the group does not go on: %d, %w", one[0], err)
			}
			return nil
		})
	}
}

// refusal is an error and its expected text.
type refusal struct {
	err  error
	says string
}

func wrongCalls(ctx context.Context, g *comm.Group) []refusal {
	n, me := g.Size(), g.Rank()
	f, i := make([]float32, 2*n), make([]int32, 2*n)
	counts, negative := make([]int, n), make([]int, n)
	negative[0] = -1
	counts[n-1] = 1
	last := fmt.Sprintf("ranks 0 to %d", n-1)
	rows := []refusal{
		{comm.AllReduce(ctx, g, f, f[:1], comm.Sum), "AllReduce: send has"},
		{comm.AllReduce(ctx, g, f, f, comm.BAnd), "band works on the bits of integers, not on float32"},
		{comm.AllReduce(ctx, g, i, i, comm.Op(99)), "Op(99) is no reduction"},
		{comm.AllReduceAsync(ctx, g, f, f, comm.BXor).Wait(), "bxor works on the bits"},
		{comm.Reduce(ctx, g, f, f, comm.Sum, n), last},
		{comm.Reduce(ctx, g, f, f[:1], comm.Sum, me), "the same length"},
		{comm.Broadcast(ctx, g, f, -1), "Broadcast: root -1 is not one of the " + last},
		{comm.AllGather(ctx, g, f[:1], f), "needs 2, not 1"},
		{comm.ReduceScatter(ctx, g, f, f[:1], comm.Sum), "needs 2, not 1"},
		{comm.ReduceScatterV(ctx, g, f, f, counts, comm.BOr), "bor works on the bits"},
		{comm.Gather(ctx, g, f[:1], f, n+3), last},
		{comm.Gather(ctx, g, f[:1], f, me), "needs 2, not 1"},
		{comm.Scatter(ctx, g, f, f[:1], me), "needs 2, not 1"},
		{comm.AllToAll(ctx, g, f, f[:n]), "the same length"},
		{comm.Send(ctx, g, f, n), last},
		{comm.Recv(ctx, g, f, -1), last},
		{comm.SendRecv(ctx, g, f, n, f, 0), "the receiver"},
		{comm.SendRecv(ctx, g, f, 0, f, n), "the sender"},
		{comm.AllGatherV(ctx, g, f[:0], f, counts[1:]), "not one for each"},
		{comm.AllGatherV(ctx, g, f[:0], f, negative), "says -1 elements for rank 0"},
		{comm.AllGatherV(ctx, g, f[:0], f, counts), "counts add up to 1 elements"},
		{comm.GatherV(ctx, g, f, f[:1], counts, me), "elements"},
		{comm.ScatterV(ctx, g, f, f, counts, me), "counts add up to 1"},
		{comm.AllToAllV(ctx, g, f, counts, f[:1], counts), "sendCounts add up to 1 elements, send has"},
		{comm.AllToAllV(ctx, g, f[:1], counts, f, counts), "recvCounts add up to 1 elements, recv has"},
		{g.MonitoredBarrier(ctx, 0), "needs a time limit"},
	}
	if n > 1 {
		rows = append(rows,
			refusal{comm.AllGather(ctx, g, f[:1], f[:2*n-1]), "equal blocks"},
			refusal{comm.AllToAll(ctx, g, f[:n+1], f[:n+1]), "equal blocks"})
	}
	if me > 0 {
		const apart = "send and recv begin with the same element, but this rank's block lies "
		rows = append(rows,
			refusal{comm.AllGather(ctx, g, f[:2], f), apart},
			refusal{comm.ReduceScatter(ctx, g, f, f[:2], comm.Sum), apart},
			refusal{comm.AllGatherV(ctx, g, f[:2], f, slices.Repeat([]int{2}, n)), apart})
	}
	_, err := comm.Allocate[float32](ctx, g, -1)
	rows = append(rows, refusal{err, "-1 elements"})
	_, err = comm.NewBucketer(ctx, g, comm.BAnd, 0, f)
	return append(rows, refusal{err, "band works on the bits"})
}
