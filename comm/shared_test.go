package comm_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// If ranks free different allocations, later reads would hit the wrong memory.
func TestFreeOfDifferentPieces(t *testing.T) {
	groups := open(t, 2)
	pieces := make([][2]*comm.Shared[int32], 2)
	require.NoError(t, errors.Join(each(groups, func(ctx context.Context, g *comm.Group) (err error) {
		for i := range pieces[g.Rank()] {
			if pieces[g.Rank()][i], err = comm.Allocate[int32](ctx, g, 100); err != nil {
				return err
			}
		}
		return nil
	})...))
	for _, err := range each(groups, func(ctx context.Context, g *comm.Group) error {
		return pieces[g.Rank()][g.Rank()].Free(ctx)
	}) {
		var mismatch *comm.MismatchError
		require.ErrorAs(t, err, &mismatch)
		require.ErrorContains(t, err, "Free of piece 0 of shared memory")
		require.ErrorContains(t, err, "Free of piece 1 of shared memory")
	}
}

func TestTooManyPieces(t *testing.T) {
	groups := open(t, 2)
	require.NoError(t, errors.Join(each(groups, func(ctx context.Context, g *comm.Group) error {
		var last *comm.Shared[int8]
		for {
			piece, err := comm.Allocate[int8](ctx, g, 1)
			if err == nil {
				last = piece
				continue
			}
			var refused *comm.ArgumentError
			if !errors.As(err, &refused) {
				return err
			}
			break
		}
		if err := last.Free(ctx); err != nil {
			return err
		}
		_, err := comm.Allocate[int8](ctx, g, 1)
		return err
	})...))
}
