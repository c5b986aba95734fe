package commtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

// mixedCalls runs random calls of all kinds, types and sizes. They are synchronous or asynchronous, in the group and in
// parts of it, and in private and shared memory.
func mixedCalls(t *testing.T, open Open) {
	r := testneeds.Rand(t)
	total := testneeds.Count(600, 10_000)
	for _, n := range []int{2, 3, 4, 7} {
		mixedIn(t, open(t, n), r, total/4)
	}
}

// Calls runs count random calls of all kinds on one rank and checks the results. It also uses shared memory if the
// group supports it. Ranks with the same seed make the same calls, so they can be separate processes.
func Calls(ctx context.Context, g *comm.Group, seed uint64, count int) error {
	r := rand.New(rand.NewPCG(seed, 2))
	var shared *comm.Shared[uint64]
	if g.Backend() == "cpu" {
		var err error
		if shared, err = comm.Allocate[uint64](ctx, g, 64<<10); err != nil {
			return err
		}
	}
	all := []part{slices.Repeat(part{g}, g.Size())}
	memory := [][]*comm.Shared[uint64]{slices.Repeat([]*comm.Shared[uint64]{shared}, g.Size())}
	for ; count > 0; count -= span {
		if err := perRank(ctx, g.Rank(), all, memory, draw(r, all, min(span, count))); err != nil {
			return err
		}
	}
	return nil
}

// span is the number of calls that are drawn, and can be in progress, at a time.
const span = 50

func mixedIn(t *testing.T, world []*comm.Group, r *rand.Rand, calls int) {
	all := parts(t, world, r)
	shared := memory(t, all)
	for range calls / span {
		work := draw(r, all, span)
		each(t, world, func(ctx context.Context, g *comm.Group) error { return perRank(ctx, g.Rank(), all, shared, work) })
	}
}

// part contains a group for each rank of the world; nil for ranks outside the group.
type part []*comm.Group

func (p part) size() int {
	for _, g := range p {
		if g != nil {
			return g.Size()
		}
	}
	return 0
}

// parts returns the world and two splits of it, one in reverse order.
func parts(t *testing.T, world []*comm.Group, r *rand.Rand) []part {
	all := []part{world}
	for key := range 2 {
		colors := make([]int, len(world))
		for rank := range colors {
			colors[rank] = r.IntN(2)
		}
		made := make(part, len(world))
		each(t, world, func(ctx context.Context, g *comm.Group) (err error) {
			made[g.Rank()], err = g.Split(ctx, colors[g.Rank()], g.Rank()*(1-2*key))
			return err
		})
		for color := range 2 {
			p := make(part, len(world))
			for rank, g := range made {
				if colors[rank] == color {
					p[rank] = g
				}
			}
			if p.size() > 0 {
				all = append(all, p)
			}
		}
		t.Cleanup(func() {
			for _, g := range made {
				require.NoError(t, g.Close())
			}
		})
	}
	return all
}

// memory allocates shared memory for each part if the back end supports it: [part][rank].
func memory(t *testing.T, all []part) [][]*comm.Shared[uint64] {
	shared := make([][]*comm.Shared[uint64], len(all))
	for i, p := range all {
		shared[i] = make([]*comm.Shared[uint64], len(p))
		present := slices.DeleteFunc(slices.Clone(p), func(g *comm.Group) bool { return g == nil })
		if present[0].Backend() != "cpu" {
			continue
		}
		each(t, present, func(ctx context.Context, g *comm.Group) (err error) {
			shared[i][slices.Index(p, g)], err = comm.Allocate[uint64](ctx, g, 64<<10)
			return err
		})
	}
	return shared
}

// job is one call in one of the parts.
type job struct {
	part  int
	scene scene
}

func draw(r *rand.Rand, all []part, count int) (jobs []job) {
	for range count {
		i := r.IntN(len(all))
		jobs = append(jobs, job{i, drawScene(r, all[i].size())})
	}
	return jobs
}

func drawScene(r *rand.Rand, n int) scene {
	typ := r.IntN(len(types))
	ops := types[typ].ops()
	kinds := slices.Concat(reducing, moving)
	w := callSpec{
		kind: kinds[r.IntN(len(kinds))], typ: typ, op: ops[r.IntN(len(ops))], ranks: n, root: r.IntN(n), seed: r.Uint64(),
		inPlace: drawRanks(r), shift: r.IntN(2) * r.IntN(8), async: r.IntN(3) == 0, shared: drawRanks(r),
	}
	size := sizes[r.IntN(len(sizes))]
	if r.IntN(10) == 0 {
		size = r.IntN(60_000)
	}
	return types[typ].scene(w.sized(r, size/min(n, blocks(w.kind, n))))
}

// drawRanks often returns all ranks or none.
func drawRanks(r *rand.Rand) byRank {
	return []byRank{nobody, everybody, everybody, byRank(r.IntN(1 << MostRanks))}[r.IntN(4)]
}

// perRank runs the calls of one rank of the world. Calls in one part stay in order. A rank can wait for the calls of
// one part while those of another continue.
func perRank(ctx context.Context, rank int, all []part, shared [][]*comm.Shared[uint64], jobs []job) error {
	used := make([]int, len(all))
	var open []func() error
	for i, j := range jobs {
		g := all[j.part][rank]
		if g == nil {
			continue
		}
		finish, err := j.scene(stage{ctx, g, shared[j.part][rank], &used[j.part]})
		if err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		open = append(open, finish)
	}
	for _, finish := range open {
		if err := finish(); err != nil {
			return err
		}
	}
	return nil
}

// splits checks that ranks of one color form a group, ranked by key and then by rank. A rank with a negative color is
// in no group.
func splits(t *testing.T, open Open) {
	world := open(t, 5)
	colors, keys := []int{1, 0, 1, -1, 1}, []int{7, 0, 3, 0, 3}
	wantRank, wantSize := []int{2, 0, 0, 0, 1}, []int{3, 1, 3, 0, 3}
	each(t, world, func(ctx context.Context, g *comm.Group) error {
		me := g.Rank()
		p, err := g.Split(ctx, colors[me], keys[me])
		if err != nil || p == nil {
			if colors[me] < 0 {
				return err
			}
			return fmt.Errorf("rank %d got %v, %w", me, p, err)
		}
		defer p.Close()
		if p.Rank() != wantRank[me] || p.Size() != wantSize[me] || p.Backend() != g.Backend() {
			return fmt.Errorf("rank %d became %v, wanted %d of %d", me, p, wantRank[me], wantSize[me])
		}
		one := []int32{1}
		if err := comm.AllReduce(ctx, p, one, one, comm.Sum); err != nil || int(one[0]) != wantSize[me] {
			return fmt.Errorf("%d in a group of %d, %w", one[0], wantSize[me], err)
		}
		return comm.Barrier(ctx, p)
	})
	each(t, world, func(ctx context.Context, g *comm.Group) error { return comm.Barrier(ctx, g) })
}
