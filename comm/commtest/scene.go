package commtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"gorun/comm"
)

// wish is one call of all ranks before anybody has data for it.
type wish struct {
	kind    string
	typ     int // index into types
	op      comm.Op
	ranks   int
	root    int
	counts  []int   // elements of each rank's block
	matrix  [][]int // AllToAllV: what each rank sends to each
	seed    uint64
	inPlace byRank
	shift   int    // elements that the buffers lie behind a boundary
	async   bool   // where the call has such a form
	shared  byRank // in memory of Allocate, where the group has some
}

// byRank is yes or no for each rank: its bit.
type byRank uint8

func (b byRank) of(rank int) bool { return b>>rank&1 == 1 }

const (
	nobody    byRank = 0
	everybody byRank = 1<<MostRanks - 1
)

func (w wish) String() string {
	return fmt.Sprintf(
		"%s of %s (%v), counts %v, root %d of %d ranks, in place %08b, shifted by %d, shared %08b, async %v",
		w.kind, types[w.typ], w.op, w.counts, w.root, w.ranks, w.inPlace, w.shift, w.shared, w.async)
}

// The kinds of calls, each by the name of its function.
var (
	reducing = []string{"AllReduce", "Reduce", "ReduceScatter", "ReduceScatterV"}
	moving   = []string{
		"Broadcast", "AllGather", "AllGatherV", "Gather", "GatherV", "Scatter", "ScatterV", "AllToAll", "AllToAllV",
		"SendRecv", "Send",
	}
)

// perRank says which calls may have blocks of different lengths.
func (w wish) perRank() bool {
	return w.kind == "AllGatherV" || w.kind == "GatherV" || w.kind == "ScatterV" || w.kind == "ReduceScatterV"
}

// sized gives the wish its counts: n for everybody, or up to n where they may differ.
func (w wish) sized(r *rand.Rand, n int) wish {
	w.counts = slices.Repeat([]int{n}, w.ranks)
	for i := range w.counts {
		if w.perRank() && n > 0 {
			w.counts[i] = r.IntN(n + 1)
		}
	}
	w.matrix = make([][]int, w.ranks)
	for i := range w.matrix {
		w.matrix[i] = make([]int, w.ranks)
		for j := range w.matrix[i] {
			w.matrix[i][j] = r.IntN(n + 1)
		}
	}
	return w
}

// typed is an element type whatever it is.
type typed interface {
	fmt.Stringer
	ops() []comm.Op
	size() int // bytes of an element
	scene(w wish) scene
}

func (e element[T]) String() string { return e.name }

func (e element[T]) size() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// scene is a call with its data, ready to be made by every rank. It makes the rank's call, or begins it, and returns
// how to wait for it and look at what came.
type scene func(s stage) (finish func() error, err error)

// act is a call with its data.
type act[T comm.Number] struct {
	wish
	element element[T]
	send    [][]T // by rank: what it gives
	want    [][]T // by rank: what it must get, nil for nothing
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// scene draws every rank's data and works out what must come of it.
func (e element[T]) scene(w wish) scene {
	a := &act[T]{wish: w, element: e, send: make([][]T, w.ranks), want: make([][]T, w.ranks)}
	r := rand.New(rand.NewPCG(w.seed, 1))
	for rank := range a.send {
		a.send[rank] = make([]T, a.gives(rank))
		drawn := a.send[rank][:min(len(a.send[rank]), period)]
		for i := range drawn {
			drawn[i] = e.draw(r)
		}
		for done := len(drawn); done < len(a.send[rank]); done += period {
			copy(a.send[rank][done:], drawn)
		}
	}
	for rank := range a.want {
		if same := a.kind == "AllReduce" || a.kind == "AllGather" || a.kind == "AllGatherV"; same && rank > 0 {
			a.want[rank] = a.want[0]
			continue
		}
		a.want[rank] = a.gets(rank)
	}
	return a.begin
}

// period is after how many elements data repeats, since drawing takes longer than the calls do: a prime number, that no
// chunk has as its length.
const period = 262_139

// gives is how many elements rank has for the others.
func (a *act[T]) gives(rank int) int {
	switch a.kind {
	case "Scatter", "ScatterV", "Broadcast", "Send":
		if rank != a.root {
			return 0
		}
	}
	if len(a.pieces(rank)) > 0 {
		return sum(a.pieces(rank))
	}
	return a.counts[rank]
}

// pieces are the lengths of what rank has for each rank; nil where it has the same for all.
func (a *act[T]) pieces(rank int) []int {
	switch a.kind {
	case "ReduceScatter", "ReduceScatterV", "AllToAll", "Scatter", "ScatterV":
		return a.counts
	case "AllToAllV":
		return a.matrix[rank]
	}
	return nil
}

// block is the part of a row of blocks that is rank's.
func block[T any](row []T, counts []int, rank int) []T {
	begin := sum(counts[:rank])
	return row[begin : begin+counts[rank]]
}

// gets is what rank must have in the end; nil for nothing.
func (a *act[T]) gets(rank int) []T {
	from := make([]int, a.ranks) // of whom it has something
	for i := range from {
		from[i] = i
	}
	switch a.kind {
	case "Reduce", "Gather", "GatherV":
		if rank != a.root {
			return nil
		}
	case "Send":
		if rank != a.sink() {
			return nil
		}
		from = []int{a.root}
	case "Broadcast", "Scatter", "ScatterV":
		from = []int{a.root}
	case "SendRecv":
		from = []int{a.before(rank)}
	}
	var blocks [][]T
	for _, i := range from {
		given := a.send[i]
		if pieces := a.pieces(i); pieces != nil {
			given = block(given, pieces, rank)
		}
		blocks = append(blocks, given)
	}
	if slices.Contains(reducing, a.kind) {
		return a.reduced(blocks)
	}
	if len(blocks) == 1 {
		return blocks[0]
	}
	return slices.Concat(blocks...)
}

// sink is who receives what the root sends.
func (w wish) sink() int { return (w.root + 1 + int(w.seed%uint64(max(w.ranks-1, 1)))) % w.ranks }

// before and after are rank's neighbours when all send in a circle, root+1 ranks wide.
func (w wish) before(rank int) int { return (rank - w.root - 1 + 2*w.ranks) % w.ranks }
func (w wish) after(rank int) int  { return (rank + w.root + 1) % w.ranks }

func (a *act[T]) reduced(rows [][]T) []T {
	result, column := make([]T, len(rows[0])), make([]T, len(rows))
	for i := range result {
		for rank := range rows {
			column[rank] = rows[rank][i]
		}
		result[i] = a.element.reduce(a.op, column)
	}
	return result
}
