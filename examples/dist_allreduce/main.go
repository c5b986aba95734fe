// Command dist_allreduce times one all-reduce, with the flags of the teaching texts' dist_allreduce.py.
//
//	gorun -n 4 ./examples/dist_allreduce --backend cpu --data-size 16777216
//
// For tables over all sizes there is `gorun bench allreduce`.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"gorun/comm"
)

// rounds are timed, the best of them counts: the first ones meet cold memory.
const rounds = 5

func main() {
	log.SetFlags(0)
	log.SetPrefix("dist_allreduce: ")
	backend := flag.String("backend", "auto", "auto, cpu or nccl; gloo, PyTorch's for CPUs, means cpu")
	size := flag.Int("data-size", 16<<20, "elements (float32, 4 bytes each)")
	flag.Parse()
	if *size < 1 {
		log.Fatalf("--data-size %d: take 1 element or more", *size)
	}
	if *backend == "gloo" {
		*backend = "cpu"
	}
	if err := run(context.Background(), *backend, *size); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, backend string, size int) error {
	g, err := comm.Join(ctx, comm.WithBackend(backend), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	data := make([]float32, size)
	best := time.Duration(1<<63 - 1)
	for range rounds {
		took, err := once(ctx, g, data)
		if err != nil {
			return err
		}
		best = min(best, took)
	}
	times := []int64{int64(best)}
	if err := comm.Reduce(ctx, g, times, times, comm.Max, 0); err != nil || g.Rank() != 0 {
		return err
	}
	report(g, 4*float64(size), time.Duration(times[0]))
	return nil
}

// once sums ones, and returns how long that took.
func once(ctx context.Context, g *comm.Group, data []float32) (time.Duration, error) {
	for i := range data {
		data[i] = 1
	}
	if err := comm.Barrier(ctx, g); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := comm.AllReduce(ctx, g, data, data, comm.Sum); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	for i, value := range data {
		if value != float32(g.Size()) {
			return 0, fmt.Errorf("element %d of %d is %v, not %d: please report this", i, len(data), value, g.Size())
		}
	}
	return took, nil
}

// report prints time and bandwidths. The bus bandwidth is what each rank's link must carry: an all-reduce moves
// 2·(N-1)/N of the data in and out of each of N ranks at least (Patarasuk and Yuan, 2009), as nccl-tests counts it.
func report(g *comm.Group, bytes float64, took time.Duration) {
	ranks := float64(g.Size())
	algorithm := bytes / took.Seconds() / 1e9
	fmt.Printf("all-reduce of %.0f float32 (%.1f MB) over %d ranks (backend %s)\n", bytes/4, bytes/1e6, g.Size(),
		g.Backend())
	fmt.Printf("  time               %8.3f ms   best of %d\n", took.Seconds()*1e3, rounds)
	fmt.Printf("  algorithm bandwidth %7.2f GB/s\n", algorithm)
	fmt.Printf("  bus bandwidth       %7.2f GB/s\n", algorithm*2*(ranks-1)/ranks)
	fmt.Printf("every element is %d on every rank\n", g.Size())
}
