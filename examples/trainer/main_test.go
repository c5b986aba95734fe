package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigits(t *testing.T) {
	training, test, err := digits(1)
	require.NoError(t, err)
	require.Len(t, training, 1437)
	require.Len(t, test, heldOut)
	seen := map[int]int{}
	for _, one := range append(training, test...) {
		seen[one.digit]++
	}
	require.Len(t, seen, classes)

	_, err = parse(strings.NewReader("1,2,3\n"))
	require.EqualError(t, err, "line 1 has 3 numbers, not 65")
}

// The gradients are those of the loss: measured by changing single weights a little.
func TestGradients(t *testing.T) {
	training, _, err := digits(1)
	require.NoError(t, err)
	m := newModel(settings{seed: 1, batch: 5, hidden: 128})
	batch := m.batches(training, 0)
	require.Len(t, batch, 288)
	_, err = m.backward(batch[0], m.gradients, func(int) error { return nil })
	require.NoError(t, err)

	loss := func() (sum float64) {
		for _, one := range batch[0] {
			a := m.weights.forward(one)
			sum += a.loss()
		}
		return sum
	}
	const little = 1e-3
	gradients := m.gradients.list()
	for i, tensor := range m.weights.list() {
		for k := 0; k < len(tensor); k += 97 {
			kept := tensor[k]
			tensor[k] = kept + little
			above := loss()
			tensor[k] = kept - little
			below := loss()
			tensor[k] = kept
			require.InDelta(t, (above-below)/(2*little), float64(gradients[i][k]), 3e-3, "tensor %d, weight %d", i, k)
		}
	}
}

// Slices of a batch are disjoint and leave nothing out, also where there are more ranks than images.
func TestSlices(t *testing.T) {
	batch := make([]*image, 7)
	for i := range batch {
		batch[i] = &image{digit: i}
	}
	for _, size := range []int{1, 2, 3, 7, 9} {
		var all []*image
		for rank := range size {
			all = append(all, slice(batch, rank, size)...)
		}
		require.Equal(t, batch, all, "%d ranks", size)
	}
}

func TestDraw(t *testing.T) {
	one := image{digit: 3}
	one.pixels[0], one.pixels[9] = 1, 0.5
	require.Equal(t, "@@\n  ==\n\n\n\n\n\n\n    5? no, a 3", draw([]image{one}, []int{5}))
}
