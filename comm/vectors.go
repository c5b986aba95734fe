package comm

import (
	"context"
	"math"

	"gorun/comm/internal/backend"
)

// sumOf validates counts, one number for each rank, and returns their sum.
func (g *Group) sumOf(kind backend.Kind, name string, counts []int) (int, error) {
	if g == nil {
		return 0, noGroup(kind.String())
	}
	if len(counts) != g.size {
		return 0, wrong(kind, "%s has %d numbers, not one for each of the %d ranks", name, len(counts), g.size)
	}
	sum := 0
	for rank, count := range counts {
		if count < 0 || count > math.MaxInt-sum {
			return 0, wrong(kind, "%s says %d elements for rank %d", name, count, rank)
		}
		sum += count
	}
	return sum, nil
}

// own checks the buffer for this rank's elements and the buffer for all elements. In place, both are the same.
func (g *Group) own(c *backend.Call, part, whole int) error {
	sum, err := g.sumOf(c.Kind, "counts", c.Counts)
	if err != nil {
		return err
	}
	c.Count = c.Counts[g.rank]
	inPlace := c.Send == c.Recv && part == whole
	switch {
	case whole != sum:
		return wrong(c.Kind, "counts add up to %d elements, the buffer for all has %d", sum, whole)
	case part != c.Count && !inPlace:
		return wrong(c.Kind, "counts say %d elements for rank %d, its buffer has %d", c.Count, g.rank, part)
	}
	before := 0
	for _, count := range c.Counts[:g.rank] {
		before += count
	}
	return apart(c, part, whole, before)
}

// AllGatherV is [AllGather] with blocks of different lengths. counts contains the number of elements that each rank
// sends and must be the same on all ranks.
func AllGatherV[T Number](ctx context.Context, g *Group, send, recv []T, counts []int) error {
	c := backend.Call{
		Kind: backend.AllGatherV, DType: dtypeOf[T](), Send: pointer(send), Recv: pointer(recv),
		Counts: counts,
	}
	if err := g.own(&c, len(send), len(recv)); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// ReduceScatterV is [ReduceScatter] with blocks of different lengths. counts contains the number of elements that each
// rank receives and must be the same on all ranks.
func ReduceScatterV[T Number](ctx context.Context, g *Group, send, recv []T, counts []int, op Op) error {
	c := backend.Call{
		Kind: backend.ReduceScatterV, DType: dtypeOf[T](), Op: op, Send: pointer(send),
		Recv: pointer(recv), Counts: counts,
	}
	if err := checkOp(op, c.DType); err != nil {
		return wrong(c.Kind, "%v", err)
	}
	if err := g.own(&c, len(recv), len(send)); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// GatherV is [Gather] with blocks of different lengths: counts[r] elements from rank r. Only the root needs counts and
// recv.
func GatherV[T Number](ctx context.Context, g *Group, send, recv []T, counts []int, root int) error {
	c := backend.Call{
		Kind: backend.GatherV, DType: dtypeOf[T](), Root: root, Count: len(send), Send: pointer(send),
		Recv: pointer(recv), Counts: counts,
	}
	return g.atRoot(ctx, &c, len(send), len(recv), "recv")
}

// ScatterV is [Scatter] with blocks of different lengths: counts[r] elements for rank r. Only the root needs counts and
// send.
func ScatterV[T Number](ctx context.Context, g *Group, send, recv []T, counts []int, root int) error {
	c := backend.Call{
		Kind: backend.ScatterV, DType: dtypeOf[T](), Root: root, Count: len(recv), Send: pointer(send),
		Recv: pointer(recv), Counts: counts,
	}
	return g.atRoot(ctx, &c, len(recv), len(send), "send")
}

// AllToAllV is [AllToAll] with blocks of different lengths. This rank sends sendCounts[r] elements to rank r and
// receives recvCounts[r] elements from it. Both ranks must give the same number for a block. The buffers must not
// overlap.
func AllToAllV[T Number](ctx context.Context, g *Group, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	c := backend.Call{
		Kind: backend.AllToAllV, DType: dtypeOf[T](), Send: pointer(send), Recv: pointer(recv), SendCounts: sendCounts,
		RecvCounts: recvCounts,
	}
	out, err := g.sumOf(c.Kind, "sendCounts", sendCounts)
	if err != nil {
		return err
	}
	in, err := g.sumOf(c.Kind, "recvCounts", recvCounts)
	switch {
	case err != nil:
		return err
	case out != len(send):
		return wrong(c.Kind, "sendCounts add up to %d elements, send has %d", out, len(send))
	case in != len(recv):
		return wrong(c.Kind, "recvCounts add up to %d elements, recv has %d", in, len(recv))
	case sendCounts[g.rank] != recvCounts[g.rank]:
		return wrong(c.Kind, "rank %d sends itself %d elements and expects %d", g.rank, sendCounts[g.rank],
			recvCounts[g.rank])
	}
	return g.do(ctx, &c)
}
