package comm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"gorun/comm"
)

func Example() {
	ctx := context.Background()
	g, err := comm.Join(ctx, comm.WithRank(0, 1)) // without options, Join reads the environment
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	x := []float32{1, 2}
	if err := comm.AllReduce(ctx, g, x, x, comm.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Println(g, x)
	// Output: rank 0 of 1 (cpu) [1 2]
}

// Use errors.As with the address of a pointer variable to get the error that ended a group.
func ExampleTimeoutError() {
	check := func(err error) {
		var late *comm.TimeoutError
		var lost *comm.PeerError
		switch {
		case errors.As(err, &late):
			fmt.Println("waited for", late.Ranks, "in", late.Call)
		case errors.As(err, &lost):
			fmt.Println("gone:", lost.Rank)
		}
	}
	// errors as calls return them
	check(fmt.Errorf("comm: %w", &comm.TimeoutError{Ranks: []int{3}, Call: "Barrier", After: time.Second}))
	check(fmt.Errorf("comm: %w", &comm.PeerError{Rank: 2, How: "its process ended"}))
	// Output:
	// waited for [3] in Barrier
	// gone: 2
}

func ExampleNewBucketer() {
	ctx := context.Background()
	g, err := comm.Join(ctx, comm.WithRank(0, 1))
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	last, first := []float32{3, 4}, []float32{1, 2} // gradients, in the order in which they become ready
	b, err := comm.NewBucketer(ctx, g, comm.Avg, 0, last, first)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)
	for i := range 2 { // in each step
		if err := b.Ready(ctx, i); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(last, first)
	// Output: [3 4] [1 2]
}
