//go:build cgo

package comm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call must not allocate, because programs make millions of calls.
func TestCallsAllocateNothing(t *testing.T) {
	ctx := context.Background()
	g, err := Join(ctx, WithRank(0, 1))
	require.NoError(t, err)
	defer g.Close()
	x, y := make([]float32, 100), make([]float32, 100)
	counts := []int{100}
	for name, call := range map[string]func() error{
		"AllReduce":  func() error { return AllReduce(ctx, g, x, y, Sum) },
		"Broadcast":  func() error { return Broadcast(ctx, g, x, 0) },
		"AllGatherV": func() error { return AllGatherV(ctx, g, x, y, counts) },
		"Barrier":    func() error { return Barrier(ctx, g) },
	} {
		require.NoError(t, call())
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = call() }), name)
	}
}

// BenchmarkCall measures a call in a group of one: the overhead of Go and cgo.
func BenchmarkCall(b *testing.B) {
	ctx := context.Background()
	g, err := Join(ctx, WithRank(0, 1))
	require.NoError(b, err)
	defer g.Close()
	x := make([]float32, 2)
	b.ReportAllocs()
	for b.Loop() {
		if err := AllReduce(ctx, g, x, x, Sum); err != nil {
			b.Fatal(err)
		}
	}
}
