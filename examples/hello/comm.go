package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"gorun/comm"
)

// byGroup does what byStore does by collectives.
func byGroup(ctx context.Context) error {
	g, err := comm.Join(ctx, comm.WithTimeout(patience))
	if err != nil {
		return err
	}
	defer g.Close()

	pids := make([]int64, g.Size())
	if err := comm.AllGather(ctx, g, []int64{int64(os.Getpid())}, pids); err != nil {
		return err
	}
	sum := []float64{integrate(g.Rank(), g.Size())}
	fmt.Printf("rank %d of %d is process %d: its part is %.9f\n", g.Rank(), g.Size(), os.Getpid(), sum[0])
	if err := comm.AllReduce(ctx, g, sum, sum, comm.Sum); err != nil {
		return err
	}
	if math.Abs(sum[0]-math.Pi) > 1e-9 {
		return fmt.Errorf("the parts add up to %v, which is not π", sum[0])
	}
	if g.Rank() == 0 {
		fmt.Printf("all ranks met: processes %d found π = %.9f\n", pids, sum[0])
	}
	return nil
}
