package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThirtyPerCentRule(t *testing.T) {
	said := report(times{compute: 0.007, reduce: 0.003, reduceHalf: 0.0015})
	require.Contains(t, said, "compute-bound: communication takes 30.0 % of the step")
	require.NotContains(t, said, "What helps")

	said = report(times{compute: 0.006, reduce: 0.004, reduceHalf: 0.002})
	require.Contains(t, said, "communication-bound: it takes 40.0 % of the step")
	for _, remedy := range []string{
		"1. accumulate the gradients of 4 steps, then reduce once     14.3 %",
		"2. a batch that is 4 times as large (--batch)                14.3 %",
		"3. compress gradients, e.g. send the largest tenth            6.2 %",
		"4. a network (on one host: memory) that is twice as fast     25.0 %",
		"5. mixed precision: gradients as bfloat16 (measured)         25.0 %",
	} {
		require.Contains(t, said, remedy)
	}
}

// The layer computes what it says, for a matrix that is written out.
func TestLayer(t *testing.T) {
	l := newLayer(2)
	copy(l.weights, []float32{1, 2, 3, 4})
	copy(l.x, []float32{5, 6})
	l.step(1)
	require.Equal(t, []float32{17, 39}, l.y)
	require.Equal(t, []float32{17 * 5, 17 * 6, 39 * 5, 39 * 6}, l.gradients)
	require.Equal(t, []float32{17*1 + 39*3, 17*2 + 39*4}, l.inputError)
}
