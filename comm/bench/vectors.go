package bench

import (
	"cmp"
	"context"

	"gorun/comm"
)

// vectors are the buffers of a rank, for any element type, and the calls that use them.
type vectors interface {
	// prepare selects the parts of the buffers for a size. count is the number of elements in the vector, or
	// in each part.
	prepare(count int, inPlace bool)
	spoil() error                   // overwrites the output with wrong values; it may overwrite the input
	fill() error                    // writes the input
	touch()                         // rewrites the first element of the input
	call(ctx context.Context) error // runs the operation
	wrong() (int64, error)          // counts elements that differ from the result of fill and one call
	copy(count, piece int)          // copies from one buffer to the other, in pieces
	shift(count, piece int)         // copies within a buffer, in pieces
}

// typed are the vectors of one element type. If the group works on GPUs, fill and wrong use host memory and
// copy it outside the timed calls.
type typed[T comm.Number] struct {
	codec[T]
	group    *comm.Group
	name     string
	root     int
	op       comm.Op
	patterns [][]T // one period of each rank's input
	reduced  []T   // one period of the result

	host   [2][]T // host memory
	device [2]*comm.DeviceBuffer[T]

	in, out span // this rank's input, and the output of the call
	want    []expected[T]
	run     func(ctx context.Context) error
}

// span is a part of one of the two buffers. The zero value is empty.
type span struct{ buffer, at, count int }

// block returns one of several parts of count elements.
func (s span) block(i, count int) span { return span{s.buffer, s.at + i*count, count} }

// expected is the expected content of a part of the output: a pattern from a given element on.
type expected[T comm.Number] struct {
	part    span
	pattern []T
	from    int
}

// vectorsOf allocates the buffers of a type, with longest elements each.
func vectorsOf[T comm.Number](c codec[T]) func(*comm.Group, Config, int) (vectors, error) {
	return func(g *comm.Group, config Config, longest int) (vectors, error) {
		r := find(reductions, cmp.Or(config.Op, "sum"))
		switch {
		case r == nil:
			return nil, unsupported("%q is no reduction: take one of %v", config.Op, Reductions())
		case r.bits && c.exact > 0:
			return nil, unsupported("%s works on the bits of integers, not on %s: take --dtype int32, for instance", config.Op,
				config.DType)
		}
		t := &typed[T]{codec: c, group: g, name: config.Operation, root: config.Root, op: r.op}
		for rank := range g.Size() {
			t.patterns = append(t.patterns, t.repeat(func(i int) float64 { return r.input(rank, i) }))
		}
		t.reduced = t.repeat(func(i int) float64 { return r.result(g.Size(), i, c.exact == 0) })
		for i := range t.host {
			t.host[i] = make([]T, longest)
			t.write(t.host[i]) // allocates all pages
			if g.Backend() == "nccl" {
				var err error
				if t.device[i], err = comm.NewDeviceBuffer[T](g, longest); err != nil {
					return nil, err
				}
			}
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

func (t *typed[T]) prepare(count int, inPlace bool) {
	rank, whole := t.group.Rank(), count*t.group.Size()
	isRoot, from := rank == t.root, 0
	if inPlace {
		from = 1
	}
	t.want = nil
	t.in, t.out = span{from, 0, count}, span{1, 0, count}
	send := &t.in
	expect := func(part span, pattern []T, from int) { t.want = append(t.want, expected[T]{part, pattern, from}) }
	switch t.name {
	case "allreduce":
		expect(t.out, t.reduced, 0)
	case "reduce":
		if isRoot {
			expect(t.out, t.reduced, 0)
		} else {
			t.out = span{}
		}
	case "broadcast":
		if expect(t.out, t.patterns[t.root], 0); !isRoot {
			t.in = span{}
		}
	case "allgather", "gather":
		t.out = span{1, 0, whole}
		if inPlace {
			t.in, send = t.out.block(rank, count), &t.out
		}
		if t.name == "gather" && !isRoot {
			t.out, send = span{}, &t.in
			break
		}
		for i, pattern := range t.patterns {
			expect(t.out.block(i, count), pattern, 0)
		}
	case "reducescatter", "scatter":
		pattern, mine := t.reduced, t.out
		t.in.count = whole
		if t.name == "scatter" {
			pattern = t.patterns[t.root]
		}
		if t.name == "scatter" && !isRoot {
			t.in = span{}
		} else if inPlace {
			t.out, mine = t.in, t.in.block(rank, count)
		}
		expect(mine, pattern, rank*count)
	case "alltoall":
		t.in.count, t.out.count = whole, whole
		for i, pattern := range t.patterns {
			expect(t.out.block(i, count), pattern, rank*count)
		}
	case "sendrecv":
		expect(t.out, t.patterns[(rank+len(t.patterns)-1)%len(t.patterns)], 0)
	case "p2p":
		if rank < 2 {
			expect(t.out, t.patterns[1-rank], 0)
		}
	default:
		t.in, t.out = span{}, span{}
	}
	t.run = t.calls(t.argument(*send), t.argument(t.out))
}

// argument returns a part as an argument for a call.
func (t *typed[T]) argument(s span) []T {
	memory := t.host[s.buffer]
	if device := t.device[s.buffer]; device != nil {
		memory = device.Span()
	}
	if s.count == 0 {
		return nil
	}
	return memory[s.at:][:s.count]
}

// calls returns the call of the operation.
func (t *typed[T]) calls(send, recv []T) func(ctx context.Context) error {
	g, op, root := t.group, t.op, t.root
	next, previous := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
	call := map[string]func(ctx context.Context) error{
		"allreduce":     func(ctx context.Context) error { return comm.AllReduce(ctx, g, send, recv, op) },
		"reduce":        func(ctx context.Context) error { return comm.Reduce(ctx, g, send, recv, op, root) },
		"broadcast":     func(ctx context.Context) error { return comm.Broadcast(ctx, g, recv, root) },
		"allgather":     func(ctx context.Context) error { return comm.AllGather(ctx, g, send, recv) },
		"reducescatter": func(ctx context.Context) error { return comm.ReduceScatter(ctx, g, send, recv, op) },
		"gather":        func(ctx context.Context) error { return comm.Gather(ctx, g, send, recv, root) },
		"scatter":       func(ctx context.Context) error { return comm.Scatter(ctx, g, send, recv, root) },
		"alltoall":      func(ctx context.Context) error { return comm.AllToAll(ctx, g, send, recv) },
		"sendrecv":      func(ctx context.Context) error { return comm.SendRecv(ctx, g, send, next, recv, previous) },
		"p2p":           func(ctx context.Context) error { return pingPong(ctx, g, send, recv) },
		"barrier":       func(ctx context.Context) error { return comm.Barrier(ctx, g) },
	}
	return call[t.name]
}

// pingPong sends a message from rank 0 to rank 1 and one back. Other ranks take no part.
func pingPong[T comm.Number](ctx context.Context, g *comm.Group, send, recv []T) error {
	switch g.Rank() {
	case 0:
		if err := comm.Send(ctx, g, send, 1); err != nil {
			return err
		}
		return comm.Recv(ctx, g, recv, 1)
	case 1:
		if err := comm.Recv(ctx, g, recv, 0); err != nil {
			return err
		}
		return comm.Send(ctx, g, send, 0)
	}
	return nil
}

func (t *typed[T]) call(ctx context.Context) error { return t.run(ctx) }

// on returns a part in host memory.
func (t *typed[T]) on(s span) []T { return t.host[s.buffer][s.at:][:s.count] }

// push copies the start of a buffer up to the end of a part to the GPU.
func (t *typed[T]) push(s span) error {
	if device := t.device[s.buffer]; device != nil && s.count > 0 {
		return device.CopyIn(t.host[s.buffer][:s.at+s.count])
	}
	return nil
}

func (t *typed[T]) fill() error {
	t.write(t.on(t.in))
	return t.push(t.in)
}

// write fills a buffer with this rank's input.
func (t *typed[T]) write(buffer []T) {
	pattern := t.patterns[t.group.Rank()]
	for at := 0; at < len(buffer); at += period {
		copy(buffer[at:], pattern)
	}
}

// touch does nothing on a GPU: unwritten GPU memory does not share one page of zeros.
func (t *typed[T]) touch() {
	if t.device[0] == nil && t.in.count > 0 {
		t.on(t.in)[0] = t.patterns[t.group.Rank()][0]
	}
}

func (t *typed[T]) spoil() error {
	var odd T
	odd--
	out := t.on(t.out)
	for i := range out {
		out[i] = odd
	}
	return t.push(t.out)
}

// wrong compares the output with the ranks' inputs, reduced in rank order.
func (t *typed[T]) wrong() (found int64, err error) {
	if device := t.device[t.out.buffer]; device != nil && t.out.count > 0 {
		if err := device.CopyOut(t.host[t.out.buffer][:t.out.at+t.out.count]); err != nil {
			return 0, err
		}
	}
	for _, want := range t.want {
		at := want.from % period
		for _, got := range t.on(want.part) {
			if got != want.pattern[at] && !t.near(got, want.pattern[at]) {
				found++
			}
			if at++; at == period {
				at = 0
			}
		}
	}
	return found, nil
}

func (t *typed[T]) copy(count, piece int) { inPieces(t.host[1][:count], t.host[0][:count], piece) }
func (t *typed[T]) shift(count, piece int) {
	inPieces(t.host[1][:count], t.host[1][count:2*count], piece)
}

func inPieces[T any](to, from []T, piece int) {
	for at := 0; at < len(to); at += piece {
		copy(to[at:min(at+piece, len(to))], from[at:])
	}
}
