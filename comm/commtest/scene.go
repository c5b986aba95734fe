package commtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"gorun/comm"
)

// callSpec describes one call of all ranks, without data.
type callSpec struct {
	kind    string
	typ     int // index into types
	op      comm.Op
	ranks   int
	root    int
	counts  []int   // elements of each rank's block
	matrix  [][]int // AllToAllV: elements from each rank to each rank
	seed    uint64
	inPlace byRank
	shift   int    // offset of the buffers from an alignment boundary, in elements
	async   bool   // asynchronous, if the call supports it
	shared  byRank // uses memory from Allocate, if the group has some
}

// byRank is a bit set of ranks.
type byRank uint8

func (b byRank) of(rank int) bool { return b>>rank&1 == 1 }

const (
	nobody    byRank = 0
	everybody byRank = 1<<MostRanks - 1
)

func (w callSpec) String() string {
	return fmt.Sprintf(
		"%s of %s (%v), counts %v, root %d of %d ranks, in place %08b, shifted by %d, shared %08b, async %v",
		w.kind, types[w.typ], w.op, w.counts, w.root, w.ranks, w.inPlace, w.shift, w.shared, w.async)
}

// The kinds of calls, by function name.
var (
	reducing = []string{"AllReduce", "Reduce", "ReduceScatter", "ReduceScatterV"}
	moving   = []string{
		"Broadcast", "AllGather", "AllGatherV", "Gather", "GatherV", "Scatter", "ScatterV", "AllToAll", "AllToAllV",
		"SendRecv", "Send",
	}
)

// perRank reports whether the call's blocks can have different lengths.
func (w callSpec) perRank() bool {
	return w.kind == "AllGatherV" || w.kind == "GatherV" || w.kind == "ScatterV" || w.kind == "ReduceScatterV"
}

// sized sets the counts: n for every rank, or up to n if they can differ.
func (w callSpec) sized(r *rand.Rand, n int) callSpec {
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

// typed is an element of any type.
type typed interface {
	fmt.Stringer
	ops() []comm.Op
	size() int // size of an element in bytes
	scene(w callSpec) scene
}

func (e element[T]) String() string { return e.name }

func (e element[T]) size() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// scene runs or starts a call on one rank. finish waits for the call and checks its result.
type scene func(s stage) (finish func() error, err error)

// act is a call with its data.
type act[T comm.Number] struct {
	callSpec
	element element[T]
	send    [][]T // each rank's input
	want    [][]T // each rank's expected result, nil for none
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// scene draws every rank's data and computes the expected results.
func (e element[T]) scene(w callSpec) scene {
	a := &act[T]{callSpec: w, element: e, send: make([][]T, w.ranks), want: make([][]T, w.ranks)}
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

// period is the number of elements after which the data repeats, since drawing data takes longer than the calls. It is
// prime, so that no chunk has this length.
const period = 262_139

// gives returns the number of elements that rank sends.
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

// pieces returns the lengths of rank's blocks for each rank; nil if all ranks get the same data.
func (a *act[T]) pieces(rank int) []int {
	switch a.kind {
	case "ReduceScatter", "ReduceScatterV", "AllToAll", "Scatter", "ScatterV":
		return a.counts
	case "AllToAllV":
		return a.matrix[rank]
	}
	return nil
}

// block returns rank's block in a row of blocks.
func block[T any](row []T, counts []int, rank int) []T {
	begin := sum(counts[:rank])
	return row[begin : begin+counts[rank]]
}

// gets returns rank's expected result; nil for none.
func (a *act[T]) gets(rank int) []T {
	from := make([]int, a.ranks) // the ranks that it receives from
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

// sink returns the rank that receives the root's message.
func (w callSpec) sink() int { return (w.root + 1 + int(w.seed%uint64(max(w.ranks-1, 1)))) % w.ranks }

// before and after return rank's neighbours in a ring with distance root+1.
func (w callSpec) before(rank int) int { return (rank - w.root - 1 + 2*w.ranks) % w.ranks }
func (w callSpec) after(rank int) int  { return (rank + w.root + 1) % w.ranks }

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
