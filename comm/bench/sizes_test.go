package bench

import (
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeries(t *testing.T) {
	for name, row := range map[string]struct {
		begin, end, factor, step int64
		want                     []int64
	}{
		"doubling":            {8, 64, 2, 0, []int64{8, 16, 32, 64}},
		"not hit":             {8, 100, 4, 0, []int64{8, 32}},
		"one":                 {8, 8, 2, 0, []int64{8}},
		"steps":               {8, 33, 0, 10, []int64{8, 18, 28}},
		"none":                {9, 8, 2, 0, nil},
		"up to the largest":   {math.MaxInt64 / 2, math.MaxInt64, 2, 0, []int64{math.MaxInt64 / 2, math.MaxInt64 - 1}},
		"steps at the end":    {math.MaxInt64 - 1, math.MaxInt64, 0, 5, []int64{math.MaxInt64 - 1}},
		"factor at the end":   {math.MaxInt64 - 1, math.MaxInt64, 1000, 0, []int64{math.MaxInt64 - 1}},
		"from one byte up":    {1, 3, 3, 0, []int64{1, 3}},
		"larger than doubled": {1, 1000, 10, 0, []int64{1, 10, 100, 1000}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, series(row.begin, row.end, row.factor, row.step)) })
	}
}

// Sizes refer to the whole vector, with whole elements and equal parts.
func TestSizesOfOperations(t *testing.T) {
	c := Config{Begin: 8, End: 64, Factor: 2}
	require.Equal(t, []size{{8, 2}, {16, 4}, {32, 8}, {64, 16}}, find(operations, "allreduce").sizes(c, 4, 4))
	require.Equal(t, []size{{16, 1}, {32, 2}, {64, 4}}, find(operations, "allgather").sizes(c, 4, 4),
		"8 bytes are no element for each, and no size comes twice")
	require.Equal(t, []size{{12, 1}, {24, 2}, {60, 5}}, find(operations, "alltoall").sizes(c, 3, 4))
	require.Equal(t, []size{{8, 1}, {16, 2}, {32, 4}, {64, 8}}, find(operations, "broadcast").sizes(c, 3, 8))
	require.Equal(t, []size{{}}, find(operations, "barrier").sizes(c, 4, 4))
}

// Rank 0 waits for the other ranks even if it fails after the last call.
func TestSettle(t *testing.T) {
	waits := 0
	wait := func() error { waits++; return io.ErrClosedPipe }
	require.ErrorIs(t, settle(nil, 1, wait), io.ErrClosedPipe)
	require.EqualError(t, settle(afterAll{io.EOF}, 0, wait), "EOF")
	require.ErrorIs(t, settle(afterAll{ErrWrong}, 0, wait), ErrWrong)
	require.Equal(t, 3, waits)
	require.ErrorIs(t, settle(io.EOF, 0, wait), io.EOF)
	require.Error(t, settle(unsupported("p2p"), 0, wait))
	require.NoError(t, settle(unsupported("p2p"), 1, wait))
	require.Equal(t, 3, waits)
}

func TestAvailableMemory(t *testing.T) {
	bytes, known := availableMemory()
	require.True(t, known)
	require.Greater(t, bytes, float64(1<<20))
}

// Rounded sizes are reported.
func TestRounded(t *testing.T) {
	float := find(elements, "float32")
	require.Empty(t, find(operations, "allreduce").rounded(Config{Begin: 8, End: 64, Factor: 2}, 4, float))
	require.Empty(t, find(operations, "barrier").rounded(Config{Begin: 5, End: 64, Factor: 2}, 4, float))
	require.Equal(t, "whole elements (float32): 5 B is measured as 4 B",
		find(operations, "allreduce").rounded(Config{Begin: 5, End: 9, Factor: 2}, 4, float))
	require.Equal(t, "whole elements (float32), as many for each of 3 ranks: 8 B is measured as 12 B, and 2 more like it",
		find(operations, "allgather").rounded(Config{Begin: 8, End: 32, Factor: 2}, 3, float))
}
