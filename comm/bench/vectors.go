package bench

import (
	"context"

	"gorun/comm"
)

// vectors are a rank's buffers, of whatever type, and the calls that are made with them.
type vectors interface {
	// prepare chooses the part of the buffers for a size: elements of the vector, or of each part.
	prepare(count int, inPlace bool)
	fill()                          // writes the inputs
	touch()                         // writes the first element of the input again
	spoil()                         // writes what no result is where results come that are no inputs
	call(ctx context.Context) error // the operation
	wrong() int64                   // elements that differ from what must be there after fill and one call
	copy(count, piece int)          // from the one buffer to the other, as many elements, in pieces
	shift(count, piece int)         // within the other, as many
}

// typed are vectors of one type.
type typed[T comm.Number] struct {
	codec[T]
	group     *comm.Group
	name      string
	root      int
	reduction *reduction
	patterns  [][]T // of each rank's input, one period
	reduced   []T   // one period of the result

	one, two []T // the memory

	count     int
	in        []T // where this rank's input lies
	send, out []T // the arguments of the call
	run       func(ctx context.Context) error
}

// vectorsOf makes the buffers of a type, longest elements each.
func vectorsOf[T comm.Number](c codec[T]) func(*comm.Group, Config, int) (vectors, error) {
	return func(g *comm.Group, config Config, longest int) (vectors, error) {
		r := reductionOf(config.Op)
		switch {
		case r == nil:
			return nil, wish("%q is no reduction: take one of %v", config.Op, Reductions())
		case r.bits && c.exact > 0:
			return nil, wish("%s works on the bits of integers, not on %s: take --dtype int32, for instance", config.Op,
				config.DType)
		}
		t := &typed[T]{codec: c, group: g, name: config.Operation, root: config.Root, reduction: r}
		for rank := range g.Size() {
			t.patterns = append(t.patterns, t.repeat(func(i int) float64 { return r.input(rank, i) }))
		}
		t.reduced = t.repeat(func(i int) float64 { return r.result(g.Size(), i, c.exact == 0) })
		t.one, t.two = t.memory(longest), t.memory(longest)
		if g.Backend() == "nccl" {
			return onGPU(t)
		}
		return t, nil
	}
}

func (t *typed[T]) repeat(at func(i int) float64) []T {
	list := make([]T, period)
	for i := range list {
		list[i] = t.of(at(i))
	}
	return list
}

// block is one rank's part of a whole vector.
func (t *typed[T]) block(whole []T, rank int) []T { return whole[rank*t.count:][:t.count] }

func (t *typed[T]) prepare(count int, inPlace bool) {
	t.count = count
	t.in, t.send, t.out, t.run = nil, nil, nil, nil
	g, rank := t.group, t.group.Rank()
	whole := count * g.Size()
	switch t.name {
	case "allreduce", "reduce":
		t.lay(count, count, inPlace)
	case "allgather", "gather":
		if t.lay(count, whole, inPlace); inPlace {
			t.in, t.send = t.block(t.out, rank), t.out
		}
	case "reducescatter", "scatter", "alltoall":
		outs := count
		if inPlace || t.name == "alltoall" {
			outs = whole
		}
		t.lay(whole, outs, inPlace)
	case "broadcast":
		t.lay(count, count, true)
	case "sendrecv", "p2p":
		t.lay(count, count, false)
	}
	t.atRoot(inPlace)
	t.run = t.calls()
}

// lay puts input and output into one buffer, or two.
func (t *typed[T]) lay(in, out int, inPlace bool) {
	t.out = t.two[:out]
	if t.in = t.one[:in]; inPlace {
		t.in = t.two[:in]
	}
	t.send = t.in
}

// atRoot takes from a rank what only the root has, or all others.
func (t *typed[T]) atRoot(inPlace bool) {
	if t.group.Rank() == t.root {
		return
	}
	switch t.name {
	case "reduce":
		t.out = nil
	case "gather":
		t.out, t.send = nil, t.in
	case "scatter":
		t.in, t.send, t.out = nil, nil, t.two[:t.count]
	case "broadcast":
		t.in = nil
	}
}

// calls is the operation's call with the buffers as they lie.
func (t *typed[T]) calls() func(ctx context.Context) error {
	g, op, send, out, root := t.group, t.reduction.op, t.send, t.out, t.root
	switch t.name {
	case "allreduce":
		return func(ctx context.Context) error { return comm.AllReduce(ctx, g, send, out, op) }
	case "reduce":
		return func(ctx context.Context) error { return comm.Reduce(ctx, g, send, out, op, root) }
	case "broadcast":
		return func(ctx context.Context) error { return comm.Broadcast(ctx, g, out, root) }
	case "allgather":
		return func(ctx context.Context) error { return comm.AllGather(ctx, g, send, out) }
	case "reducescatter":
		return func(ctx context.Context) error { return comm.ReduceScatter(ctx, g, send, out, op) }
	case "gather":
		return func(ctx context.Context) error { return comm.Gather(ctx, g, send, out, root) }
	case "scatter":
		return func(ctx context.Context) error { return comm.Scatter(ctx, g, send, out, root) }
	case "alltoall":
		return func(ctx context.Context) error { return comm.AllToAll(ctx, g, send, out) }
	case "sendrecv":
		next, before := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
		return func(ctx context.Context) error { return comm.SendRecv(ctx, g, send, next, out, before) }
	case "p2p":
		return t.pingPong()
	}
	return func(ctx context.Context) error { return comm.Barrier(ctx, g) }
}

// pingPong is a message from rank 0 to rank 1 and one back; the others have nothing to do.
func (t *typed[T]) pingPong() func(ctx context.Context) error {
	g, send, out := t.group, t.send, t.out
	switch g.Rank() {
	case 0:
		return func(ctx context.Context) error {
			if err := comm.Send(ctx, g, send, 1); err != nil {
				return err
			}
			return comm.Recv(ctx, g, out, 1)
		}
	case 1:
		return func(ctx context.Context) error {
			if err := comm.Recv(ctx, g, out, 0); err != nil {
				return err
			}
			return comm.Send(ctx, g, send, 0)
		}
	}
	return func(context.Context) error { return nil }
}

func (t *typed[T]) call(ctx context.Context) error { return t.run(ctx) }

func (t *typed[T]) fill() { t.write(t.in) }

// write fills a buffer with this rank's input.
func (t *typed[T]) write(buffer []T) {
	pattern := t.patterns[t.group.Rank()]
	for at := 0; at < len(buffer); at += period {
		copy(buffer[at:], pattern)
	}
}

// memory makes a buffer whose pages are all there.
func (t *typed[T]) memory(elements int) []T {
	buffer := make([]T, elements)
	t.write(buffer)
	return buffer
}

func (t *typed[T]) touch() {
	if len(t.in) > 0 {
		t.in[0] = t.patterns[t.group.Rank()][0]
	}
}

func (t *typed[T]) spoil() {
	if len(t.out) == 0 || len(t.in) > 0 && &t.in[0] == &t.out[0] && len(t.in) == len(t.out) {
		return
	}
	kept := -1 // the part of the output that is this rank's input
	if len(t.in) > 0 && len(t.in) < len(t.out) && &t.in[0] == &t.block(t.out, t.group.Rank())[0] {
		kept = t.group.Rank()
	}
	var odd T
	odd--
	for i := range t.out {
		if t.count == 0 || i/t.count != kept {
			t.out[i] = odd
		}
	}
}

func (t *typed[T]) copy(count, piece int)  { inPieces(t.two[:count], t.one[:count], piece) }
func (t *typed[T]) shift(count, piece int) { inPieces(t.two[:count], t.two[count:2*count], piece) }

func inPieces[T any](to, from []T, piece int) {
	for at := 0; at < len(to); at += piece {
		copy(to[at:min(at+piece, len(to))], from[at:])
	}
}
