// Hello joins the group of all ranks, adds up their numbers, in the group and among those that are even or odd as
// it is, and says what came of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"gorun/comm"
)

func main() {
	log.SetFlags(0)
	if err := hello(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func hello(ctx context.Context) error {
	g, err := comm.Join(ctx)
	if err != nil {
		return err
	}
	sum := []int64{int64(g.Rank())}
	if err := comm.AllReduce(ctx, g, sum, sum, comm.Sum); err != nil {
		return err
	}
	half, err := g.Split(ctx, g.Rank()%2, 0)
	if err != nil {
		return err
	}
	part := []int64{int64(g.Rank())}
	if err := comm.AllReduce(ctx, half, part, part, comm.Sum); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d: sum %d, of its half %d\n", g.Rank(), g.Size(), sum[0], part[0])
	return errors.Join(half.Close(), g.Close())
}
