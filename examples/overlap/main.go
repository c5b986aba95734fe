// Command overlap shows what it brings to reduce gradients while the rest of the backward pass still computes.
//
//	gorun -n 2 ./examples/overlap
//
// Before: the whole backward pass, then one all-reduce for each layer's gradients. After: a [comm.Bucketer], which
// begins a bucket's all-reduce as soon as its gradients are there, as DistributedDataParallel does; they are computed
// right in the buckets, and so not copied. The best that can be reached is the longer of computing and communication.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"runtime"
	"slices"
	"time"

	"gorun/comm"
)

// options describe the model.
type options struct {
	layers, size, steps int
	compute             time.Duration
	bucket              int
	elsewhere           bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("overlap: ")
	var o options
	flag.IntVar(&o.layers, "layers", 16, "layers of the model")
	flag.IntVar(&o.size, "size", 1<<18, "gradients of a layer (float32, 4 bytes each)")
	flag.DurationVar(&o.compute, "compute", time.Millisecond,
		"what a layer's backward pass computes, as time on an idle CPU")
	flag.IntVar(&o.bucket, "bucket", 4<<20, "bytes of a bucket")
	flag.IntVar(&o.steps, "steps", 15, "steps of each kind; their median counts")
	flag.BoolVar(&o.elsewhere, "elsewhere", false,
		"wait for --compute instead of computing, as a rank does whose GPU computes: its CPU is free")
	flag.Parse()
	if o.layers < 1 || o.size < 1 || o.steps < 1 || o.bucket < 1 {
		log.Fatal("--layers, --size, --bucket and --steps: take 1 or more of each")
	}
	if err := run(context.Background(), o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	m, err := newModel(ctx, g, o)
	if err != nil {
		return err
	}
	steps := []func(context.Context) error{m.computeOnly, m.reduceOnly, m.oneAfterTheOther, m.overlapped}
	seconds, err := m.measure(ctx, steps)
	if err != nil {
		return err
	}
	if g.Rank() == 0 {
		m.report(seconds)
	}
	return m.bucketer.Close(ctx)
}

// measure runs the kinds of steps in turn, so that a slow spell of the machine hits all alike, and returns each one's
// median on the slowest rank.
func (m *model) measure(ctx context.Context, kinds []func(context.Context) error) ([]float64, error) {
	samples := make([][]float64, len(kinds))
	for range m.steps {
		for kind, step := range kinds {
			if err := comm.Barrier(ctx, m.group); err != nil {
				return nil, err
			}
			begun := time.Now()
			if err := step(ctx); err != nil {
				return nil, err
			}
			samples[kind] = append(samples[kind], time.Since(begun).Seconds())
			if err := m.check(kind); err != nil {
				return nil, err
			}
		}
	}
	medians := make([]float64, len(kinds))
	for kind := range kinds {
		slices.Sort(samples[kind])
		medians[kind] = samples[kind][m.steps/2]
	}
	return medians, comm.AllReduce(ctx, m.group, medians, medians, comm.Max)
}

func (m *model) report(seconds []float64) {
	compute, reduce, sequence, overlapped := 1e3*seconds[0], 1e3*seconds[1], 1e3*seconds[2], 1e3*seconds[3]
	bound := max(compute, reduce)
	fmt.Printf("%d ranks with %d CPUs each; %d layers of %.1f MB, %d buckets\n", m.group.Size(), runtime.NumCPU(),
		m.layers, 4e-6*float64(m.size),
		m.bucketer.Buckets())
	fmt.Printf("  compute alone             %8.2f ms\n", compute)
	fmt.Printf("  communication alone       %8.2f ms\n", reduce)
	fmt.Printf("  before: one after another %8.2f ms a step\n", sequence)
	fmt.Printf("  after: overlapped         %8.2f ms a step\n", overlapped)
	fmt.Printf("overlapped takes %.2f of the time, and %.2f of the longer of both (%.2f ms), the best possible\n",
		overlapped/sequence, overlapped/bound, bound)
	if runtime.NumCPU() < 2 && !m.elsewhere {
		fmt.Println("each rank has one CPU, which either computes or reduces: what is saved is waiting and copies; with a " +
			"second one both happen at once")
	}
}
