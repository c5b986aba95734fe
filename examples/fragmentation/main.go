// Command fragmentation shows what fresh buffers in every step cost, against buffers that are made once.
//
//	gorun -n 2 ./examples/fragmentation
//
// Memory that is new has to be mapped page by page when it is first touched, and where a transport works in place it
// must be made known to it first: registered with a NIC or, on CPUs, shared with the host's other ranks. Steps of ever
// new sizes do that again and again.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"

	"gorun/comm"
)

// way is how a step gets its buffer of n elements. done gives it back.
type way struct {
	name   string
	buffer func(n int) (data []float32, done func() error, err error)
}

// cost is what a step took.
type cost struct {
	time      time.Duration
	faults    float64 // pages mapped
	allocated float64 // MiB of Go's heap
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("fragmentation: ")
	size := flag.Int("size", 2<<20, "elements of the largest step (float32, 4 bytes each)")
	steps := flag.Int("steps", 20, "steps in each way")
	flag.Parse()
	if *size < 2 || *steps < 1 {
		log.Fatalf("--size %d --steps %d: take at least 2 elements and 1 step", *size, *steps)
	}
	if err := run(context.Background(), *size, *steps); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, size, steps int) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	ways, err := allWays(ctx, g, size)
	if err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("%d ranks, %d steps: all-reduce of %.1f to %.1f MiB\n", g.Size(), steps, float64(size/2)/(1<<18),
			float64(size)/(1<<18))
		fmt.Printf("%-34s %9s %14s %16s\n", "the step's buffer is", "ms a step", "page faults", "MiB of Go heap")
	}
	for _, w := range ways {
		c, err := measure(ctx, g, w, size, steps)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if g.Rank() == 0 {
			fmt.Printf("%-34s %9.2f %14.0f %16.2f\n", w.name, c.time.Seconds()*1e3, c.faults, c.allocated)
		}
	}
	return nil
}

// allWays lists them, the worst last.
func allWays(ctx context.Context, g *comm.Group, size int) ([]way, error) {
	kept := make([]float32, size)
	shared, err := comm.Allocate[float32](ctx, g, size)
	if err != nil {
		return nil, err
	}
	keep := func() error { return nil }
	return []way{
		{"part of one that is shared", func(n int) ([]float32, func() error, error) { return shared.Data[:n], keep, nil }},
		{"part of one slice", func(n int) ([]float32, func() error, error) { return kept[:n], keep, nil }},
		{"a new slice", func(n int) ([]float32, func() error, error) { return make([]float32, n), keep, nil }},
		{"new and shared anew (registered)", func(n int) ([]float32, func() error, error) {
			fresh, err := comm.Allocate[float32](ctx, g, n)
			if err != nil {
				return nil, nil, err
			}
			return fresh.Data, func() error { return fresh.Free(ctx) }, nil
		}},
	}, nil
}

// measure runs the steps, of sizes that look random and are the same on all ranks.
func measure(ctx context.Context, g *comm.Group, w way, size, steps int) (c cost, err error) {
	sizes := rand.New(rand.NewPCG(1, 1))
	if err := step(ctx, g, w, size); err != nil { // what is mapped once is not counted
		return c, err
	}
	if err := comm.Barrier(ctx, g); err != nil {
		return c, err
	}
	faults, heap, begun := pageFaults(), allocated(), time.Now()
	for range steps {
		if err := step(ctx, g, w, size/2+sizes.IntN(size/2)); err != nil {
			return c, err
		}
	}
	c.time = time.Since(begun) / time.Duration(steps)
	c.faults = float64(pageFaults()-faults) / float64(steps)
	c.allocated = float64(allocated()-heap) / (1 << 20) / float64(steps)
	return c, nil
}

// step computes n gradients, all 1, and sums them up.
func step(ctx context.Context, g *comm.Group, w way, n int) error {
	data, done, err := w.buffer(n)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] = 1
	}
	if err := comm.AllReduce(ctx, g, data, data, comm.Sum); err != nil {
		return err
	}
	if data[n-1] != float32(g.Size()) {
		return fmt.Errorf("the sum is %v, not %d: please report this", data[n-1], g.Size())
	}
	return done()
}

// pageFaults counts the pages that this process had mapped so far.
func pageFaults() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Minflt
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}
