package comm

import (
	"context"
	"time"
	"unsafe"

	"gorun/comm/internal/backend"
)

func pointer[T Number](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// Barrier blocks until every rank of the group has called it.
//
// Cost on one host: each rank sends one cache line to each other rank, about 0.1 µs for two ranks with one CPU each.
func Barrier(ctx context.Context, g *Group) error {
	return g.do(ctx, &backend.Call{Kind: backend.Barrier})
}

// MonitoredBarrier is a [Barrier] with its own timeout. If limit expires, its [TimeoutError] names exactly the ranks
// that have not called it. The group cannot be used after that.
func (g *Group) MonitoredBarrier(ctx context.Context, limit time.Duration) error {
	if g == nil {
		return noGroup("MonitoredBarrier")
	}
	return g.monitored(ctx, limit)
}

// AllReduce reduces send, element by element, over all ranks and stores the result in every rank's recv. send and recv
// have the same length on all ranks. Pass the same slice twice to reduce in place.
//
// Cost on one host for S bytes and P ranks: up to 56 bytes, each rank sends one cache line to each other rank. Up to 4
// KiB, and for two ranks at any size, every rank reads the data of all others. Above that, each rank reduces one P-th
// for all ranks, in chunks that fit in the cache: α + 2·S·β + S·γ. β and γ are the seconds to copy and to
// reduce a byte.
//
// Over H hosts of L ranks, each rank sends a slice of S/L bytes. This adds 2·(H-1)/H·S/L·β, where β is that of the
// network. See Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
func AllReduce[T Number](ctx context.Context, g *Group, send, recv []T, op Op) error {
	var c backend.Call
	if err := allReduceCall(&c, send, recv, op); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// allReduceCall fills in c, which must be zero. It sets single fields because the compiler copies a composite literal
// through a second Call, which costs 20 ns.
func allReduceCall[T Number](c *backend.Call, send, recv []T, op Op) error {
	c.Kind, c.DType, c.Op, c.Count = backend.AllReduce, dtypeOf[T](), op, len(send)
	c.Send, c.Recv = pointer(send), pointer(recv)
	if err := checkOp(op, c.DType); err != nil {
		return wrong(c.Kind, "%v", err)
	}
	return sameLength(c.Kind, len(send), len(recv))
}

func sameLength(kind backend.Kind, send, recv int) error {
	if send != recv {
		return wrong(kind, "send has %d elements, recv %d: they need the same length", send, recv)
	}
	return nil
}

// Reduce is [AllReduce] with the result on rank root only. recv can be nil on the other ranks.
func Reduce[T Number](ctx context.Context, g *Group, send, recv []T, op Op, root int) error {
	var c backend.Call
	if err := reduceCall(&c, g, send, recv, op, root); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

func reduceCall[T Number](c *backend.Call, g *Group, send, recv []T, op Op, root int) error {
	c.Kind, c.DType, c.Op, c.Root, c.Count = backend.Reduce, dtypeOf[T](), op, root, len(send)
	c.Send, c.Recv = pointer(send), pointer(recv)
	if err := checkOp(op, c.DType); err != nil {
		return wrong(c.Kind, "%v", err)
	}
	if err := g.checkRank(c.Kind, "root", root); err != nil || g.rank != root {
		return err
	}
	return sameLength(c.Kind, len(send), len(recv))
}

// Broadcast copies rank root's buffer into every rank's buffer. The length must be the same on all ranks. The root does
// not wait for the other ranks if the buffer is small. A mismatch of roots can therefore surface in a later call only.
//
// Cost on one host: the root copies S bytes into shared memory once, in chunks, while the other ranks copy them out.
func Broadcast[T Number](ctx context.Context, g *Group, buffer []T, root int) error {
	var c backend.Call
	if err := broadcastCall(&c, g, buffer, root); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

func broadcastCall[T Number](c *backend.Call, g *Group, buffer []T, root int) error {
	c.Kind, c.DType, c.Root, c.Count = backend.Broadcast, dtypeOf[T](), root, len(buffer)
	c.Send, c.Recv = pointer(buffer), pointer(buffer)
	return g.checkRank(c.Kind, "root", root)
}

// AllGather stores every rank's send in every rank's recv, in rank order. send has the same length n on all ranks, and
// recv has n × Size elements. To gather in place, pass recv as send too, with this rank's block in its place.
func AllGather[T Number](ctx context.Context, g *Group, send, recv []T) error {
	var c backend.Call
	if err := allGatherCall(&c, g, send, recv); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

func allGatherCall[T Number](c *backend.Call, g *Group, send, recv []T) error {
	c.Kind, c.DType, c.Count = backend.AllGather, dtypeOf[T](), len(send)
	c.Send, c.Recv = pointer(send), pointer(recv)
	return g.blocks(c, len(send), len(recv), "recv")
}

// blocks sets Count for a call with two buffers. whole holds one block for each rank; part is one block, or the same
// buffer as whole.
func (g *Group) blocks(c *backend.Call, part, whole int, name string) error {
	if g == nil {
		return noGroup(c.Kind.String())
	}
	if whole%g.size != 0 {
		return wrong(c.Kind, "%s has %d elements, which are no %d equal blocks", name, whole, g.size)
	}
	c.Count = whole / g.size
	if part != c.Count && (c.Send != c.Recv || part != whole) {
		return wrong(c.Kind, "%s has %d elements for %d ranks, so the other buffer needs %d, not %d", name, whole, g.size,
			c.Count, part)
	}
	return apart(c, part, whole, c.Count*g.rank)
}

// apart rejects a part that starts at the same address as the whole buffer although its block has another offset. The
// back end would treat such a call as in place.
func apart(c *backend.Call, part, whole, offset int) error {
	if c.Send == c.Recv && part > 0 && part != whole && offset > 0 {
		return wrong(c.Kind, "send and recv begin with the same element, but this rank's block lies %d elements behind: "+
			"pass the same slice twice for in place, or buffers that do not overlap", offset)
	}
	return nil
}

// ReduceScatter reduces send over all ranks and stores block r of the result in rank r's recv. recv has n elements, and
// send has n × Size. To reduce in place, pass send as recv too; the result replaces this rank's block.
func ReduceScatter[T Number](ctx context.Context, g *Group, send, recv []T, op Op) error {
	var c backend.Call
	if err := reduceScatterCall(&c, g, send, recv, op); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

func reduceScatterCall[T Number](c *backend.Call, g *Group, send, recv []T, op Op) error {
	c.Kind, c.DType, c.Op = backend.ReduceScatter, dtypeOf[T](), op
	c.Send, c.Recv = pointer(send), pointer(recv)
	if err := checkOp(op, c.DType); err != nil {
		return wrong(c.Kind, "%v", err)
	}
	return g.blocks(c, len(recv), len(send), "send")
}

// Gather is [AllGather] with the result on rank root only. recv can be nil on the other ranks.
func Gather[T Number](ctx context.Context, g *Group, send, recv []T, root int) error {
	c := backend.Call{
		Kind: backend.Gather, DType: dtypeOf[T](), Root: root, Count: len(send), Send: pointer(send),
		Recv: pointer(recv),
	}
	return g.atRoot(ctx, &c, len(send), len(recv), "recv")
}

// atRoot runs a call in which only the root uses the buffer called name, which has a block for each rank.
func (g *Group) atRoot(ctx context.Context, c *backend.Call, part, whole int, name string) error {
	err := g.checkRank(c.Kind, "root", c.Root)
	switch {
	case err != nil:
		return err
	case g.rank != c.Root:
		c.Counts = nil
	case c.Kind == backend.GatherV || c.Kind == backend.ScatterV:
		err = g.own(c, part, whole)
	default:
		err = g.blocks(c, part, whole, name)
	}
	if err != nil {
		return err
	}
	return g.do(ctx, c)
}

// Scatter stores block r of the root's send in rank r's recv. recv has n elements, and send has n × Size. send can be
// nil on the other ranks. To scatter in place at the root, pass send as recv too.
func Scatter[T Number](ctx context.Context, g *Group, send, recv []T, root int) error {
	c := backend.Call{
		Kind: backend.Scatter, DType: dtypeOf[T](), Root: root, Count: len(recv), Send: pointer(send),
		Recv: pointer(recv),
	}
	return g.atRoot(ctx, &c, len(recv), len(send), "send")
}

// AllToAll sends block r of every rank's send to rank r, which stores the blocks in recv in rank order. send and recv
// have the same length, a multiple of Size. Pass the same slice twice to exchange in place.
func AllToAll[T Number](ctx context.Context, g *Group, send, recv []T) error {
	var c backend.Call
	if err := allToAllCall(&c, g, send, recv); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

func allToAllCall[T Number](c *backend.Call, g *Group, send, recv []T) error {
	c.Kind, c.DType = backend.AllToAll, dtypeOf[T]()
	c.Send, c.Recv = pointer(send), pointer(recv)
	if err := sameLength(c.Kind, len(send), len(recv)); err != nil {
		return err
	}
	if g == nil {
		return noGroup(c.Kind.String())
	}
	if len(send)%g.size != 0 {
		return wrong(c.Kind, "%d elements are no %d equal blocks", len(send), g.size)
	}
	c.Count = len(send) / g.size
	return nil
}

// Send sends data to rank to, which must call [Recv] or [SendRecv] with the same type and length. It returns when you
// can change data, possibly before the receiver has it. Two ranks of a host buffer up to 13 messages of 128 KiB
// together; a further or larger Send blocks until the receiver takes some.
//
// A rank can therefore send as much to itself and receive it later. More blocks until the timeout. Between hosts, the
// receiver must receive the data before both ranks take part in a later collective.
func Send[T Number](ctx context.Context, g *Group, data []T, to int) error {
	c := backend.Call{Kind: backend.Send, DType: dtypeOf[T](), Root: to, Count: len(data), Send: pointer(data)}
	if err := g.checkRank(c.Kind, "the receiver", to); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// Recv receives data that rank from sends with [Send] or [SendRecv]. Messages arrive in the order in which they are
// sent.
func Recv[T Number](ctx context.Context, g *Group, data []T, from int) error {
	c := backend.Call{Kind: backend.Recv, DType: dtypeOf[T](), Root: from, Count: len(data), Recv: pointer(data)}
	if err := g.checkRank(c.Kind, "the sender", from); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// SendRecv sends and receives at the same time, so ranks can exchange data in a ring without a deadlock. The buffers
// must not overlap.
func SendRecv[T Number](ctx context.Context, g *Group, send []T, to int, recv []T, from int) error {
	c := backend.Call{
		Kind: backend.SendRecv, DType: dtypeOf[T](), Root: to, From: from,
		Count: len(send), RecvCount: len(recv), Send: pointer(send), Recv: pointer(recv),
	}
	if err := g.checkRank(c.Kind, "the receiver", to); err != nil {
		return err
	}
	if err := g.checkRank(c.Kind, "the sender", from); err != nil {
		return err
	}
	return g.do(ctx, &c)
}
