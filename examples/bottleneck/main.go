// Command bottleneck says whether a training step computes or waits for the network.
//
//	gorun -n 2 ./examples/bottleneck
//	gorun -n 2 ./examples/bottleneck --batch 64
//
// The model is one dense layer of width × width weights, in plain Go: a larger batch means more computing, and the
// same gradients to reduce. The rule of thumb is that communication should take less than 30 % of a step; five remedies
// are known, and the program says what each would bring here.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"time"

	"gorun/comm"
)

// limit is the share of communication from which on it is worth doing something about it.
const limit = 0.3

// rounds are timed, and their median counts.
const rounds = 9

// times are those of a step's parts on the slowest rank, in seconds.
type times struct{ compute, reduce, reduceHalf float64 }

func main() {
	log.SetFlags(0)
	log.SetPrefix("bottleneck: ")
	width := flag.Int("width", 1024, "inputs and outputs of the layer: it has width × width weights")
	batch := flag.Int("batch", 1, "samples in a step, of each rank")
	flag.Parse()
	if *width < 1 || *batch < 1 {
		log.Fatalf("--width %d --batch %d: take 1 or more of each", *width, *batch)
	}
	if err := run(context.Background(), *width, *batch); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, width, batch int) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	l := newLayer(width)
	full, half := make([]float32, width*width), make([]comm.BFloat16, width*width)
	parts := []func() error{
		func() error { l.step(batch); return nil },
		func() error { return comm.AllReduce(ctx, g, full, full, comm.Sum) },
		func() error { return comm.AllReduce(ctx, g, half, half, comm.Sum) },
	}
	seconds := make([]float64, len(parts))
	for i, part := range parts {
		if seconds[i], err = median(ctx, g, part); err != nil {
			return err
		}
	}
	if err := comm.AllReduce(ctx, g, seconds, seconds, comm.Max); err != nil || g.Rank() != 0 {
		return err
	}
	fmt.Printf("%d ranks, %d × %d weights (%.1f MB of gradients), batch %d (backend %s)\n\n", g.Size(), width, width,
		4e-6*float64(len(full)), batch, g.Backend())
	fmt.Print(report(times{seconds[0], seconds[1], seconds[2]}))
	return nil
}

// median times rounds that all ranks begin together.
func median(ctx context.Context, g *comm.Group, part func() error) (float64, error) {
	var seconds []float64
	for range rounds {
		if err := comm.Barrier(ctx, g); err != nil {
			return 0, err
		}
		begun := time.Now()
		if err := part(); err != nil {
			return 0, err
		}
		seconds = append(seconds, time.Since(begun).Seconds())
	}
	slices.Sort(seconds)
	return seconds[rounds/2], nil
}

// report says the shares, and the remedies where they are needed.
func report(t times) string {
	share := func(compute, reduce float64) float64 { return 100 * reduce / (compute + reduce) }
	now := share(t.compute, t.reduce)
	text := fmt.Sprintf("  compute        %8.3f ms  %5.1f %%\n", 1e3*t.compute, 100-now) +
		fmt.Sprintf("  communication  %8.3f ms  %5.1f %%\n", 1e3*t.reduce, now) +
		fmt.Sprintf("  step           %8.3f ms\n\n", 1e3*(t.compute+t.reduce))
	if now <= 100*limit {
		return text + fmt.Sprintf("compute-bound: communication takes %.1f %% of the step, which is not above %.0f %%\n",
			now, 100*limit)
	}
	text += fmt.Sprintf("communication-bound: it takes %.1f %% of the step, which is above %.0f %%. What helps, and the "+
		"share that it would leave here:\n", now, 100*limit)
	remedies := []struct {
		what            string
		compute, reduce float64
	}{
		{"accumulate the gradients of 4 steps, then reduce once", 4 * t.compute, t.reduce},
		{"a batch that is 4 times as large (--batch)", 4 * t.compute, t.reduce},
		{"compress gradients, e.g. send the largest tenth", t.compute, t.reduce / 10},
		{"a network (on one host: memory) that is twice as fast", t.compute, t.reduce / 2},
		{"mixed precision: gradients as bfloat16 (measured)", t.compute, t.reduceHalf},
	}
	for i, remedy := range remedies {
		text += fmt.Sprintf("  %d. %-56s %5.1f %%\n", i+1, remedy.what, share(remedy.compute, remedy.reduce))
	}
	return text + "and overlap the rest with the backward pass: examples/overlap\n"
}
