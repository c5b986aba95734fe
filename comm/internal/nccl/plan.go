//go:build cgo

package nccl

import "gorun/comm/internal/backend"

// primitive is an NCCL function that enqueues one operation. The numbers are those of enum gorun_primitive in
// library.h.
type primitive int32

const (
	allReduce primitive = iota
	reduce
	broadcast
	allGather
	reduceScatter
	send
	recv
	allToAll
)

// step is one NCCL call. Its layout is that of struct gorun_step in library.h.
type step struct {
	send, recv uintptr
	count      uintptr // in elements, as the function counts them
	what       primitive
	dtype, op  int32
	peer       int32 // or root
}

// planner converts one call to NCCL steps. Several steps run between ncclGroupStart and ncclGroupEnd. Their order does
// not matter there, and none waits for another.
type planner struct {
	member
	nativeAllToAll bool // the library has ncclAlltoAll (2.28)

	call       *backend.Call
	size       uintptr
	send, recv uintptr // the call's buffers on the GPU
	steps      []step
}

// plan appends the steps of the call to steps. The buffers are on the GPU. AllToAll(V) and SendRecv are not in place,
// since NCCL does not support that.
func (p planner) plan(c *backend.Call, sendAt, recvAt uintptr, steps []step) []step {
	p.call, p.size, p.send, p.recv, p.steps = c, uintptr(c.DType.Size()), sendAt, recvAt, steps
	inPlace := p.inPlace(c)
	own := uintptr(p.rank*c.Count) * p.size
	switch c.Kind {
	case backend.AllReduce:
		p.add(allReduce, p.send, p.recv, c.Count, 0)
	case backend.Reduce:
		p.add(reduce, p.send, p.recv, c.Count, c.Root)
	case backend.Broadcast:
		p.add(broadcast, p.recv, p.recv, c.Count, c.Root)
	case backend.AllGather:
		if inPlace {
			p.send = p.recv + own
		}
		p.add(allGather, p.send, p.recv, c.Count, 0)
	case backend.ReduceScatter:
		if inPlace {
			p.recv = p.send + own
		}
		p.add(reduceScatter, p.send, p.recv, c.Count, 0)
	case backend.AllToAll:
		p.allToAll()
	case backend.AllGatherV:
		p.allGatherV(inPlace)
	case backend.ReduceScatterV:
		p.reduceScatterV(inPlace)
	case backend.Gather, backend.GatherV:
		p.gather(inPlace)
	case backend.Scatter, backend.ScatterV:
		p.scatter(inPlace)
	case backend.AllToAllV:
		p.blocks(send, p.send, c.SendCounts, -1)
		p.blocks(recv, p.recv, c.RecvCounts, -1)
	case backend.Send, backend.Recv, backend.SendRecv:
		p.pointToPoint()
	}
	return p.steps
}

// add appends one step. It skips steps without elements, which NCCL ignores on all ranks.
func (p *planner) add(what primitive, sendAt, recvAt uintptr, count, peer int) {
	if count == 0 {
		return
	}
	one := step{
		send: sendAt, recv: recvAt, count: uintptr(count), what: what, dtype: int32(p.call.DType),
		peer: int32(peer),
	}
	switch what {
	case allReduce, reduce, reduceScatter:
		one.op = int32(p.call.Op)
	}
	p.steps = append(p.steps, one)
}

// blocks sends or receives one block for each rank, in rank order, and skips rank except.
func (p *planner) blocks(what primitive, at uintptr, counts []int, except int) {
	for rank, count := range counts {
		if rank != except {
			if what == send {
				p.add(send, at, 0, count, rank)
			} else {
				p.add(recv, 0, at, count, rank)
			}
		}
		at += uintptr(count) * p.size
	}
}

func (p *planner) even() []int {
	counts := make([]int, p.ranks)
	for i := range counts {
		counts[i] = p.call.Count
	}
	return counts
}

// counts returns the call's counts, or equal ones for calls without counts.
func (p *planner) counts() []int {
	if p.call.Kind == backend.Gather || p.call.Kind == backend.Scatter {
		return p.even()
	}
	return p.call.Counts
}

func (p *planner) allToAll() {
	if p.nativeAllToAll {
		p.add(allToAll, p.send, p.recv, p.call.Count, 0)
		return
	}
	p.blocks(send, p.send, p.even(), -1)
	p.blocks(recv, p.recv, p.even(), -1)
}

// equal reports whether all counts are the same, so that one collective can replace a group of steps.
func equal(counts []int) bool {
	for _, count := range counts {
		if count != counts[0] {
			return false
		}
	}
	return true
}

// allGatherV broadcasts each rank's block, unless the blocks are equal.
func (p *planner) allGatherV(inPlace bool) {
	counts := p.call.Counts
	offset := uintptr(sum(counts[:p.rank])) * p.size
	if inPlace {
		p.send = p.recv + offset
	}
	if equal(counts) {
		p.add(allGather, p.send, p.recv, p.call.Count, 0)
		return
	}
	at := p.recv
	for root, count := range counts {
		from := at
		if root == p.rank {
			from = p.send
		}
		p.add(broadcast, from, at, count, root)
		at += uintptr(count) * p.size
	}
}

// reduceScatterV reduces each block to its rank, unless the blocks are equal.
func (p *planner) reduceScatterV(inPlace bool) {
	counts := p.call.Counts
	if inPlace {
		p.recv = p.send + uintptr(sum(counts[:p.rank]))*p.size
	}
	if equal(counts) {
		p.add(reduceScatter, p.send, p.recv, p.call.Count, 0)
		return
	}
	at := p.send
	for root, count := range counts {
		to := uintptr(0) // only the root uses it
		if root == p.rank {
			to = p.recv
		}
		p.add(reduce, at, to, count, root)
		at += uintptr(count) * p.size
	}
}

// gather sends this rank's block to the root. The root also receives its own block, unless it is in place.
func (p *planner) gather(inPlace bool) {
	except := -1
	if inPlace {
		except = p.rank
	} else {
		p.add(send, p.send, 0, p.call.Count, p.call.Root)
	}
	if p.call.Root == p.rank {
		p.blocks(recv, p.recv, p.counts(), except)
	}
}

// scatter is the reverse of gather.
func (p *planner) scatter(inPlace bool) {
	except := -1
	if inPlace {
		except = p.rank
	}
	if p.call.Root == p.rank {
		p.blocks(send, p.send, p.counts(), except)
	}
	if !inPlace {
		p.add(recv, 0, p.recv, p.call.Count, p.call.Root)
	}
}

func (p *planner) pointToPoint() {
	c := p.call
	if c.Kind != backend.Recv {
		p.add(send, p.send, 0, c.Count, c.Root)
	}
	switch c.Kind {
	case backend.Recv:
		p.add(recv, 0, p.recv, c.Count, c.Root)
	case backend.SendRecv:
		p.add(recv, 0, p.recv, c.RecvCount, c.From)
	}
}
