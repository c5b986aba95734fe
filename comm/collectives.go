package comm

import (
	"context"
	"time"
	"unsafe"

	"gorun/comm/internal/backend"
)

// pointer is where a slice's elements are.
func pointer[T Number](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// Barrier returns when every rank of the group has called it.
//
// Cost on one host: one cache line from each rank to each, about 0.1 µs for two ranks with a CPU each.
func Barrier(ctx context.Context, g *Group) error {
	return g.do(ctx, &backend.Call{Kind: backend.Barrier})
}

// MonitoredBarrier is a Barrier with a time limit of its own, whose error names exactly the ranks that have not come
// when it is over. The group cannot be used after that.
func (g *Group) MonitoredBarrier(ctx context.Context, limit time.Duration) error {
	if g == nil {
		return noGroup("MonitoredBarrier")
	}
	return g.monitored(ctx, limit)
}

// AllReduce reduces send, element by element, over all ranks and puts the result into every rank's recv. Both have the
// same length on all ranks; send == recv is in place.
//
// Cost on one host for S bytes and P ranks: up to 56 bytes one cache line from each to each; up to 4 KiB (and for two
// ranks at any size) every rank reads all others' data; beyond, each rank reduces the P-th part for all, in chunks that
// stay in cache: α + 2·S·β + S·γ, β and γ the seconds a byte takes to copy and to reduce. Over H hosts of L
// ranks each every rank drives a slice of S/L bytes: 2·(H-1)/H·S/L·β more, β now the network's (see Thakur,
// Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", 2005).
func AllReduce[T Number](ctx context.Context, g *Group, send, recv []T, op Op) error {
	var c backend.Call
	if err := allReduceCall(&c, send, recv, op); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// allReduceCall fills in c, which is zero: field by field, since the compiler copies a whole Call through a second one,
// for 20 ns.
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

// Reduce is AllReduce with the result on rank root only; recv of the others may be nil.
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

// Broadcast copies buffer of rank root into every rank's buffer. The length is the same on all ranks. The root waits
// for nobody where the buffer is small: ranks that name different roots may notice it only in a later call.
//
// Cost on one host: the root copies S bytes once into shared memory, chunk by chunk, while the others copy them out.
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

// AllGather puts every rank's send, which has the same length n on all, into every rank's recv in rank order: recv has
// n × Size elements. In place: send is recv, and the own block lies there already.
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

// blocks sets Count where one buffer holds a block for each rank and the other, part, is one block or the same buffer.
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

// apart refuses a part that begins where the whole does though its block lies elsewhere there: that would be taken for
// a call in place.
func apart(c *backend.Call, part, whole, offset int) error {
	if c.Send == c.Recv && part > 0 && part != whole && offset > 0 {
		return wrong(c.Kind, "send and recv begin with the same element, but this rank's block lies %d elements behind: "+
			"pass the same slice twice for in place, or buffers that do not overlap", offset)
	}
	return nil
}

// ReduceScatter reduces send, of n × Size elements, over all ranks and gives rank r the r-th block of n in recv. In
// place: recv is send, and the result replaces the own block there.
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

// Gather is AllGather with the result on rank root only; recv of the others may be nil.
func Gather[T Number](ctx context.Context, g *Group, send, recv []T, root int) error {
	c := backend.Call{
		Kind: backend.Gather, DType: dtypeOf[T](), Root: root, Count: len(send), Send: pointer(send),
		Recv: pointer(recv),
	}
	return g.atRoot(ctx, &c, len(send), len(recv), "recv")
}

// atRoot makes a call whose root alone has a buffer, name, with a part for each rank.
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

// Scatter gives rank r the r-th block of root's send, which has n × Size elements, in recv of n. send of the others
// may be nil. In place at the root: recv is send.
func Scatter[T Number](ctx context.Context, g *Group, send, recv []T, root int) error {
	c := backend.Call{
		Kind: backend.Scatter, DType: dtypeOf[T](), Root: root, Count: len(recv), Send: pointer(send),
		Recv: pointer(recv),
	}
	return g.atRoot(ctx, &c, len(recv), len(send), "send")
}

// AllToAll gives rank r the r-th of the Size equal blocks of every rank's send; recv gets them in rank order. In place:
// recv is send.
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

// Send sends data to rank to, which must call Recv (or SendRecv) with the same type and length. It returns when data
// may be changed, which can be before the other has it: up to 128 KiB lie in memory between two ranks of a host, and
// what does not fit waits for the receiver. So a rank can send itself, too, what it receives later, up to that size;
// more waits for itself until the timeout. Between ranks on different hosts it must be received before both take part
// in a later collective.
func Send[T Number](ctx context.Context, g *Group, data []T, to int) error {
	c := backend.Call{Kind: backend.Send, DType: dtypeOf[T](), Root: to, Count: len(data), Send: pointer(data)}
	if err := g.checkRank(c.Kind, "the receiver", to); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// Recv receives what rank from sends with Send (or SendRecv), in the order in which it was sent.
func Recv[T Number](ctx context.Context, g *Group, data []T, from int) error {
	c := backend.Call{Kind: backend.Recv, DType: dtypeOf[T](), Root: from, Count: len(data), Recv: pointer(data)}
	if err := g.checkRank(c.Kind, "the sender", from); err != nil {
		return err
	}
	return g.do(ctx, &c)
}

// SendRecv sends and receives at once, so that ranks can exchange data in a circle without one having to begin. The
// buffers may not overlap.
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
