// Package commtest is the conformance test suite of comm's back ends. Every back end must pass it.
//
// All ranks make every call with random data. The suite compares the results with a reference in plain Go that reduces
// in rank order, bit by bit; any NaN equals any other. Buffers lie between fences that must not change. `make test`
// runs a sample and prints its seed; `make soak` runs everything.
package commtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

// Open returns a group of n ranks in this process, indexed by rank. The groups are closed when the test ends.
type Open func(t *testing.T, n int) []*comm.Group

// MostRanks is the size of the largest group that the suite opens.
const MostRanks = 8

// Run runs the suite on groups from open.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"every call":     everyCall,
		"large":          largeCalls,
		"large, typed":   typedLargeCalls,
		"mixed":          mixedCalls,
		"same bits":      sameBits,
		"barrier":        barriers,
		"split":          splits,
		"argument error": argumentErrors,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// patience limits a part of the suite. A call that hangs fails the test and prints every goroutine's stack, unless the
// ranks' own timeout ends it first.
func patience() time.Duration { return time.Duration(testneeds.Count(2, 60)) * time.Minute }

// each runs act on every rank at the same time and fails with the first rank's error.
func each(t *testing.T, groups []*comm.Group, act func(ctx context.Context, g *comm.Group) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	failed := make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() { failed[i] = act(ctx, g) })
	}
	ranks.Wait()
	require.NoError(t, errors.Join(failed...))
}

// perform runs the scenes on every rank.
func perform(t *testing.T, groups []*comm.Group, scenes ...scene) {
	t.Helper()
	each(t, groups, func(ctx context.Context, g *comm.Group) error {
		used := 0
		for _, s := range scenes {
			finish, err := s(stage{ctx, g, nil, &used})
			if err == nil {
				err = finish()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sizes lists block sizes in elements: none, one, odd, prime, and around powers of two and the size of a cache line.
var sizes = []int{
	0, 1, 2, 3, 7, 13, 14, 15, 16, 17, 28, 29, 31, 33, 63, 65, 127, 129, 509, 1023, 1025, 2047, 4097,
	8191, 16385,
}

// everyCall runs each kind of call with each type and reduction, in groups of 1 to MostRanks.
func everyCall(t *testing.T, open Open) {
	r := testneeds.Rand(t)
	for n := 1; n <= MostRanks; n++ {
		groups := open(t, n)
		var scenes []scene
		for _, w := range everySpec(r, n) {
			scenes = append(scenes, types[w.typ].scene(w))
			if len(scenes) == 100 {
				perform(t, groups, scenes...)
				scenes = nil
			}
		}
		perform(t, groups, scenes...)
	}
}

// everySpec returns all combinations of kind, type and reduction with arrangements of size, in place and shift. A
// sample contains one arrangement of each. The reference spends most time on large sizes. Each size is therefore tested
// in one arrangement, drawn for every kind, type, reduction and number of ranks.
func everySpec(r *rand.Rand, n int) (specs []callSpec) {
	for _, w := range kindsAndTypes(n) {
		arrangements := len(sizes) * 2 * 2
		// prefer small sizes, which keep the suite fast
		chosen := []int{r.IntN(arrangements) * r.IntN(arrangements) / arrangements}
		if testneeds.Soak() {
			only := r.Perm(len(sizes))
			chosen = slices.DeleteFunc(r.Perm(arrangements), func(a int) bool { return sizes[a/4] > 1025 && a%4 != only[a/4]%4 })
		}
		for _, a := range chosen {
			w.inPlace, w.shift = []byRank{nobody, everybody}[a%2], a/2%2*(1+r.IntN(7))
			w.seed, w.root = r.Uint64(), r.IntN(n)
			specs = append(specs, w.sized(r, sizes[a/4]))
		}
	}
	r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	return specs
}

func kindsAndTypes(n int) (specs []callSpec) {
	for typ, element := range types {
		for _, kind := range reducing {
			for _, op := range element.ops() {
				specs = append(specs, callSpec{kind: kind, typ: typ, op: op, ranks: n})
			}
		}
		for _, kind := range moving {
			specs = append(specs, callSpec{kind: kind, typ: typ, ranks: n})
		}
	}
	return specs
}

// float32Type is the index of the most common type.
var float32Type = slices.IndexFunc(types, func(e typed) bool { return e.String() == "float32" })

// largeCalls moves enough data for the back end's state to grow and to wrap around. Each rank moves a quarter of a MiB
// many times, or 64 MiB in `make soak`.
func largeCalls(t *testing.T, open Open) {
	r := testneeds.Rand(t)
	bytes := testneeds.Count(256<<10, 64<<20)
	for _, n := range []int{2, 3} {
		groups := open(t, n)
		for _, kind := range slices.Concat(reducing, moving) {
			for _, inPlace := range []byRank{nobody, everybody} {
				w := callSpec{
					kind: kind, typ: float32Type, op: comm.Sum, ranks: n, root: r.IntN(n), seed: r.Uint64(),
					inPlace: inPlace,
				}
				s := float32s.scene(w.sized(r, bytes/4/blocks(kind, n)+r.IntN(3)-1))
				perform(t, groups, slices.Repeat([]scene{s}, 6)...)
			}
		}
	}
}

// typedLargeCalls runs each kind, type and reduction with 64 MiB in the larger buffer, or a sample with a quarter of a
// MiB.
func typedLargeCalls(t *testing.T, open Open) {
	r := testneeds.Rand(t)
	bytes := testneeds.Count(256<<10, 64<<20)
	var groups [MostRanks + 1][]*comm.Group
	specs := kindsAndTypes(0)
	r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	for _, w := range specs[:testneeds.Count(24, len(specs))] {
		n := 2 + r.IntN(3)
		if r.IntN(16) == 0 {
			n = 1 + r.IntN(MostRanks)
		}
		if groups[n] == nil {
			groups[n] = open(t, n)
		}
		w.ranks, w.root, w.seed = n, r.IntN(n), r.Uint64()
		w.inPlace, w.shift = drawRanks(r), r.IntN(2)*(1+r.IntN(7))
		elements := bytes / types[w.typ].size() / blocks(w.kind, n)
		perform(t, groups[n], types[w.typ].scene(w.sized(r, elements+r.IntN(3)-1)))
	}
}

// blocks returns the number of blocks in the call's larger buffer.
func blocks(kind string, n int) int {
	if kind == "AllReduce" || kind == "Reduce" || kind == "Broadcast" || kind == "SendRecv" || kind == "Send" {
		return 1
	}
	return n
}

// sameBits repeats reductions on several groups and checks for equal bits. The results depend on the order of the
// operands, or on the NaN that remains.
func sameBits(t *testing.T, open Open) {
	r := testneeds.Rand(t)
	inputs := make([][]float32, MostRanks)
	for rank := range inputs {
		inputs[rank] = make([]float32, 30_001)
		for i := range inputs[rank] {
			inputs[rank][i] = float32(r.NormFloat64())
			if r.IntN(8) == 0 {
				inputs[rank][i] = math.Float32frombits(0x7FC00000 | r.Uint32()&0x803FFFFF)
			}
		}
	}
	for _, n := range []int{2, 3, 5} {
		for _, op := range float32s.ops() {
			repeat(t, open, inputs[:n], op)
		}
	}
}

func repeat(t *testing.T, open Open, inputs [][]float32, op comm.Op) {
	n := len(inputs)
	results := make([][][]float32, n)
	for range 2 {
		each(t, open(t, n), func(ctx context.Context, g *comm.Group) error {
			for range testneeds.Count(2, 20) {
				result := make([]float32, len(inputs[0]))
				if err := comm.AllReduce(ctx, g, inputs[g.Rank()], result, op); err != nil {
					return err
				}
				results[g.Rank()] = append(results[g.Rank()], result)
			}
			return nil
		})
	}
	for rank := range results {
		for i, result := range results[rank] {
			require.True(t, slices.EqualFunc(results[0][0], result, sameWord), "%v, rank %d of %d, repeat %d", op, rank, n, i)
		}
	}
}

func sameWord(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// barriers checks that no rank passes before all have arrived.
func barriers(t *testing.T, open Open) {
	groups := open(t, 4)
	var mu sync.Mutex
	come := make([]int, 4)
	each(t, groups, func(ctx context.Context, g *comm.Group) error {
		for round := range testneeds.Count(200, 20_000) {
			mu.Lock()
			come[g.Rank()] = round + 1
			mu.Unlock()
			var err error
			if round%3 == 0 {
				err = g.MonitoredBarrier(ctx, patience())
			} else {
				err = comm.Barrier(ctx, g)
			}
			mu.Lock()
			late := slices.Min(come) <= round
			mu.Unlock()
			if err != nil || late {
				return fmt.Errorf("round %d: somebody late: %v, %w", round, late, err)
			}
		}
		return nil
	})
}
