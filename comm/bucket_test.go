package comm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// Tensors become ready in a different order on each rank. Buckets start in the same order, and every step returns the
// averages.
func TestBucketer(t *testing.T) {
	lengths := []int{5, 0, 300_000, 17, 1, 40_000}
	failed := each(open(t, 3), func(ctx context.Context, g *comm.Group) error {
		tensors := make([][]float32, len(lengths))
		for i, n := range lengths {
			tensors[i] = make([]float32, n)
		}
		b, err := comm.NewBucketer(ctx, g, comm.Avg, 200_000, tensors...)
		if err != nil {
			return err
		}
		if b.Buckets() != 3 {
			return fmt.Errorf("%d buckets", b.Buckets())
		}
		for step := range 4 {
			for i := range tensors {
				i = (i*(1+4*(g.Rank()%2)) + step) % len(tensors)
				for k := range tensors[i] {
					tensors[i][k] = float32(step*100 + i + 3*g.Rank())
				}
				if err := b.Ready(ctx, i); err != nil {
					return err
				}
			}
			if err := b.Wait(); err != nil {
				return err
			}
			for i := range tensors {
				for k, v := range tensors[i] {
					if want := float32(step*100 + i + 3); v != want {
						return fmt.Errorf("step %d, tensor %d [%d]: %v, not %v", step, i, k, v, want)
					}
				}
			}
		}
		return errors.Join(misuse(ctx, g, b), b.Close(ctx))
	})
	require.NoError(t, errors.Join(failed...))
}

func misuse(ctx context.Context, g *comm.Group, b *comm.Bucketer[float32]) error {
	_, negative := comm.NewBucketer(ctx, g, comm.Sum, -1, []int32{1})
	_, many := comm.NewBucketer(ctx, g, comm.Sum, 1, slices.Repeat([][]int8{{1}}, 300)...)
	_, huge := comm.Allocate[float64](ctx, g, 1<<61+1)                                    // 8 bytes, as an int
	beyond := comm.AllGatherV[int8](ctx, g, nil, nil, []int{math.MaxInt, math.MaxInt, 2}) // 0 in all, as an int
	if _, err := comm.Allocate[int8](ctx, g, 1); err != nil {
		return fmt.Errorf("a Bucketer that was not made keeps memory: %w", err)
	}
	unknown, unready := b.Ready(ctx, 6), b.Wait()
	for says, err := range map[string]error{
		"free some": many, "2305843009213693953 elements": huge, "counts says 9223372036854775807 elements": beyond,
		"NewBucketer: buckets of -1 bytes": negative, "tensor 6 of 6": unknown,
		"tensor 0 of 6 was never said to be ready": unready,
	} {
		var wrong *comm.ArgumentError
		if !errors.As(err, &wrong) || err.Error() == "" {
			return fmt.Errorf("%s: %w", says, err)
		}
		if text := err.Error(); !contains(text, says) || contains(text, "nil") {
			return fmt.Errorf("%q does not say %q", text, says)
		}
	}
	return nil
}
