package commtest

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"gorun/comm"
)

// stage is the environment of one rank's calls.
type stage struct {
	ctx    context.Context
	group  *comm.Group
	shared *comm.Shared[uint64] // nil if the back end has none
	used   *int                 // elements of shared that calls in progress use
}

// fence is the number of elements before and after each buffer that must not change.
const fence = 3

// buffer contains a call's data between two fences.
type buffer[T comm.Number] struct {
	all  []T
	data []T
}

const mark = 0x5A

// room allocates a buffer of n elements. A nonzero shift misaligns it.
func room[T comm.Number](s stage, w callSpec, n int) buffer[T] {
	size := n + w.shift + 2*fence
	all := slices.Repeat([]T{mark}, size)
	if part := sharedRoom[T](s, w, size); part != nil {
		copy(part, all)
		all = part
	}
	begin := fence + w.shift
	return buffer[T]{all, all[begin : begin+n : begin+n]}
}

// sharedRoom allocates a part of the group's shared memory. It returns nil if the call does not use it or it is full.
func sharedRoom[T comm.Number](s stage, w callSpec, size int) []T {
	var zero T
	words := (size*int(unsafe.Sizeof(zero)) + 7) / 8
	if !w.shared.of(s.group.Rank()) || s.shared == nil || *s.used+words > len(s.shared.Data) {
		return nil
	}
	part := s.shared.Data[*s.used:]
	*s.used += words
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(part))), size)
}

func (b buffer[T]) intact() error {
	begin := len(b.all) - len(b.data) - fence
	for i, v := range slices.Concat(b.all[:begin], b.all[begin+len(b.data):]) {
		if v != mark {
			return fmt.Errorf("element %d of the fences around the buffer of %d was overwritten", i, len(b.data))
		}
	}
	return nil
}

// begin runs or starts the call on the stage's rank.
func (a *act[T]) begin(s stage) (finish func() error, err error) {
	send, recv, result := a.buffers(s)
	before := slices.Clone(send.data)
	work, err := a.call(s, send.data, recv.data)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	return func() error {
		if work != nil {
			if err := work.Wait(); err != nil {
				return fmt.Errorf("%v: %w", a, err)
			}
		}
		if err := a.check(s.group.Rank(), result); err != nil {
			return fmt.Errorf("%v: rank %d: %w", a, s.group.Rank(), err)
		}
		for _, b := range []buffer[T]{send, recv} {
			if err := b.intact(); err != nil {
				return fmt.Errorf("%v: rank %d: %w", a, s.group.Rank(), err)
			}
		}
		if unsafe.SliceData(send.data) != unsafe.SliceData(recv.data) && a.kind != "Broadcast" &&
			!a.equal(send.data, before) {
			return fmt.Errorf("%v: rank %d: what was sent changed", a, s.group.Rank())
		}
		return nil
	}, nil
}

func (a *act[T]) equal(x, y []T) bool { return slices.EqualFunc(x, y, a.element.same) }

func (a *act[T]) check(rank int, got []T) error {
	want := a.want[rank]
	if want == nil {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("the suite itself is wrong: %d elements for %d", len(got), len(want))
	}
	for i, v := range want {
		if !a.element.same(got[i], v) {
			return fmt.Errorf("element %d of %d is %v, not %v", i, len(want), got[i], v)
		}
	}
	return nil
}

// buffers returns the filled send buffer, the receive buffer and the slice for the result. In place, both buffers are
// the same.
func (a *act[T]) buffers(s stage) (send, recv buffer[T], result []T) {
	rank, root := s.group.Rank(), s.group.Rank() == a.root
	mine := a.send[rank]
	switch a.kind {
	case "Broadcast":
		send = room[T](s, a.callSpec, a.counts[rank])
		copy(send.data, mine)
		return send, send, send.data
	case "AllGather", "AllGatherV", "Gather", "GatherV":
		if a.inPlace.of(rank) && (root || a.kind[0] == 'A') {
			recv = room[T](s, a.callSpec, sum(a.counts))
			copy(block(recv.data, a.counts, rank), mine)
			return recv, recv, recv.data
		}
	case "ReduceScatter", "ReduceScatterV", "Scatter", "ScatterV":
		if a.inPlace.of(rank) && (root || a.kind[0] == 'R') {
			send = room[T](s, a.callSpec, len(mine))
			copy(send.data, mine)
			return send, send, block(send.data, a.counts, rank)
		}
	}
	send = room[T](s, a.callSpec, len(mine))
	copy(send.data, mine)
	if a.inPlace.of(rank) && (a.kind == "AllReduce" || a.kind == "AllToAll" || a.kind == "Reduce" && root) {
		return send, send, send.data
	}
	recv = room[T](s, a.callSpec, len(a.want[rank]))
	return send, recv, recv.data
}

// call runs the call. It returns nil for work if the call is done.
func (a *act[T]) call(s stage, send, recv []T) (work *comm.Work, err error) {
	if a.async {
		if work = a.callAsync(s, send, recv); work != nil {
			return work, nil
		}
	}
	ctx, g, rank := s.ctx, s.group, s.group.Rank()
	switch a.kind {
	case "AllReduce":
		return nil, comm.AllReduce(ctx, g, send, recv, a.op)
	case "Reduce":
		return nil, comm.Reduce(ctx, g, send, recv, a.op, a.root)
	case "ReduceScatter":
		return nil, comm.ReduceScatter(ctx, g, send, recv, a.op)
	case "ReduceScatterV":
		return nil, comm.ReduceScatterV(ctx, g, send, recv, a.counts, a.op)
	case "Broadcast":
		return nil, comm.Broadcast(ctx, g, recv, a.root)
	case "AllGather":
		return nil, comm.AllGather(ctx, g, send, recv)
	case "AllGatherV":
		return nil, comm.AllGatherV(ctx, g, send, recv, a.counts)
	case "Gather":
		return nil, comm.Gather(ctx, g, send, recv, a.root)
	case "GatherV":
		return nil, comm.GatherV(ctx, g, send, recv, a.counts, a.root)
	case "Scatter":
		return nil, comm.Scatter(ctx, g, send, recv, a.root)
	case "ScatterV":
		return nil, comm.ScatterV(ctx, g, send, recv, a.counts, a.root)
	case "AllToAll":
		return nil, comm.AllToAll(ctx, g, send, recv)
	case "AllToAllV":
		in := make([]int, a.ranks)
		for from := range in {
			in[from] = a.matrix[from][rank]
		}
		return nil, comm.AllToAllV(ctx, g, send, a.matrix[rank], recv, in)
	case "SendRecv":
		return nil, comm.SendRecv(ctx, g, send, a.after(rank), recv, a.before(rank))
	}
	switch {
	case a.ranks == 1:
		return nil, comm.SendRecv(ctx, g, send, 0, recv, 0)
	case rank == a.root:
		return nil, comm.Send(ctx, g, send, a.sink())
	case rank == a.sink():
		return nil, comm.Recv(ctx, g, recv, a.root)
	}
	return nil, nil
}

// callAsync starts the call. It returns nil if the call has no asynchronous form.
func (a *act[T]) callAsync(s stage, send, recv []T) *comm.Work {
	ctx, g := s.ctx, s.group
	switch a.kind {
	case "AllReduce":
		return comm.AllReduceAsync(ctx, g, send, recv, a.op)
	case "Reduce":
		return comm.ReduceAsync(ctx, g, send, recv, a.op, a.root)
	case "ReduceScatter":
		return comm.ReduceScatterAsync(ctx, g, send, recv, a.op)
	case "Broadcast":
		return comm.BroadcastAsync(ctx, g, recv, a.root)
	case "AllGather":
		return comm.AllGatherAsync(ctx, g, send, recv)
	case "AllToAll":
		return comm.AllToAllAsync(ctx, g, send, recv)
	}
	return nil
}
