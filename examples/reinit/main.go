// Command reinit shows what it costs to make a group anew for every step, against making it once.
//
//	gorun -n 4 ./examples/reinit --steps 20
//
// Ranks that join meet in the store and connect to one another. That is done once in a program's life: a step that does
// it again pays for it again.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"gorun/comm"
)

// elements is what each step reduces: 4 KiB.
const elements = 1024

func main() {
	log.SetFlags(0)
	log.SetPrefix("reinit: ")
	steps := flag.Int("steps", 20, "steps in each way")
	flag.Parse()
	if *steps < 1 {
		log.Fatalf("--steps %d: take 1 or more", *steps)
	}
	if err := run(context.Background(), *steps); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, steps int) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	anew, err := average(ctx, g, steps, func() error { return stepAnew(ctx) })
	if err != nil {
		return err
	}
	reused, err := average(ctx, g, steps, func() error { return step(ctx, g) })
	if err != nil || g.Rank() != 0 {
		return err
	}
	fmt.Printf("%d ranks, %d steps with an all-reduce of %d KiB each\n", g.Size(), steps, elements*4/1024)
	fmt.Printf("  a group for every step   %10.1f µs a step\n", micros(anew))
	fmt.Printf("  one group for all steps  %10.1f µs a step\n", micros(reused))
	fmt.Printf("making a group costs %.1f µs, as much as %.0f steps: make it once\n", micros(anew-reused),
		float64(anew-reused)/float64(reused))
	return nil
}

// stepAnew is a step that joins a group for itself alone. Nobody leaves before all are done, hence the barrier.
func stepAnew(ctx context.Context) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	if err := step(ctx, g); err != nil {
		return err
	}
	return comm.Barrier(ctx, g)
}

// step is what a training step does: an all-reduce whose result is checked.
func step(ctx context.Context, g *comm.Group) error {
	data := make([]float32, elements)
	for i := range data {
		data[i] = float32(g.Rank())
	}
	if err := comm.AllReduce(ctx, g, data, data, comm.Sum); err != nil {
		return err
	}
	if want := float32(g.Size()*(g.Size()-1)) / 2; data[elements-1] != want {
		return fmt.Errorf("the sum is %v, not %v: please report this", data[elements-1], want)
	}
	return nil
}

// average is the time of one of many steps on the slowest rank.
func average(ctx context.Context, g *comm.Group, steps int, step func() error) (time.Duration, error) {
	if err := comm.Barrier(ctx, g); err != nil {
		return 0, err
	}
	begun := time.Now()
	for range steps {
		if err := step(); err != nil {
			return 0, err
		}
	}
	took := []int64{int64(time.Since(begun)) / int64(steps)}
	err := comm.AllReduce(ctx, g, took, took, comm.Max)
	return time.Duration(took[0]), err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
