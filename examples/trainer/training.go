package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"

	"gorun/comm"
)

const (
	momentum = 0.9
	// bucketBytes makes three buckets of so small a network, so that the first travels while the gradients of the first
	// layer are computed.
	bucketBytes = 4 << 10
)

// settings are the same on all ranks.
type settings struct {
	epochs int
	batch  int // images in a step, of all ranks together
	hidden int // units between the pixels and the ten answers
	rate   float64
	seed   uint64
}

// model is a network that learns: all ranks begin with the same one, and keep it so because they add the same gradients
// to it.
type model struct {
	settings
	weights, gradients, velocity tensors
}

func newModel(s settings) *model {
	return &model{s, randomWeights(dice(s.seed, 1), s.hidden), newTensors(s.hidden), newTensors(s.hidden)}
}

// batches cuts the images, in the order of an epoch, into the batches of its steps.
func (m *model) batches(images []image, epoch int) (batches [][]*image) {
	order := dice(m.seed, uint64(2+epoch)).Perm(len(images))
	for first := 0; first < len(order); first += m.batch {
		var batch []*image
		for _, i := range order[first:min(first+m.batch, len(order))] {
			batch = append(batch, &images[i])
		}
		batches = append(batches, batch)
	}
	return batches
}

// slice is the part of a batch that rank computes.
func slice(batch []*image, rank, size int) []*image {
	return batch[rank*len(batch)/size : (rank+1)*len(batch)/size]
}

// backward fills gradients with the sum over images, and calls ready after each tensor of list that is complete. It
// returns the sum of losses.
func (m *model) backward(images []*image, gradients tensors, ready func(tensor int) error) (loss float64, err error) {
	gradients.clear()
	all := make([]activations, len(images))
	for i, one := range images {
		all[i] = m.weights.forward(one)
		loss += all[i].loss()
		all[i].lastLayer(gradients)
	}
	for _, tensor := range []int{0, 1} { // w2 and b2
		if err := ready(tensor); err != nil {
			return 0, err
		}
	}
	for i := range all {
		all[i].firstLayer(m.weights, gradients)
	}
	for _, tensor := range []int{2, 3} { // w1 and b1
		if err := ready(tensor); err != nil {
			return 0, err
		}
	}
	return loss, nil
}

// update follows the gradients, which are sums over n images, downwards.
func (m *model) update(n int) {
	weights, velocity := m.weights.list(), m.velocity.list()
	for i, gradients := range m.gradients.list() {
		for k, gradient := range gradients {
			velocity[i][k] = momentum*velocity[i][k] + gradient/float32(n)
			weights[i][k] -= float32(m.rate) * velocity[i][k]
		}
	}
}

// together runs an epoch with the other ranks: each computes the gradients of its slice of every batch, and a Bucketer
// adds them up while the rest is computed. It returns this rank's sum of losses.
func (m *model) together(ctx context.Context, g *comm.Group, b *comm.Bucketer[float32], images []image,
	epoch int,
) (sum float64, err error) {
	for step, batch := range m.batches(images, epoch) {
		ready := func(tensor int) error { return b.Ready(ctx, tensor) }
		loss, err := m.backward(slice(batch, g.Rank(), g.Size()), m.gradients, ready)
		if err != nil {
			return 0, fmt.Errorf("epoch %d, step %d: %w", epoch, step, err)
		}
		if err := b.Wait(); err != nil {
			return 0, fmt.Errorf("epoch %d, step %d: %w", epoch, step, err)
		}
		m.update(len(batch))
		sum += loss
	}
	return sum, nil
}

// alone runs an epoch without other ranks, adding the gradients of the slices in the order of the ranks that would
// compute them.
func (m *model) alone(images []image, epoch, slices int) {
	part := newTensors(m.hidden)
	nobody := func(int) error { return nil }
	for _, batch := range m.batches(images, epoch) {
		m.backward(slice(batch, 0, slices), m.gradients, nobody)
		for rank := 1; rank < slices; rank++ {
			m.backward(slice(batch, rank, slices), part, nobody)
			m.gradients.add(part)
		}
		m.update(len(batch))
	}
}

// right counts the images that this rank judges rightly: every size-th.
func (m *model) right(g *comm.Group, images []image) (count float64) {
	for i := g.Rank(); i < len(images); i += g.Size() {
		if m.weights.guess(&images[i]) == images[i].digit {
			count++
		}
	}
	return count
}

// fingerprint is the same for equal bits.
func (m *model) fingerprint() uint32 {
	sum := crc32.NewIEEE()
	for _, tensor := range m.weights.list() {
		for _, weight := range tensor {
			bits := math.Float32bits(weight)
			sum.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
		}
	}
	return sum.Sum32()
}

// sameBits counts the weights that are equal in both, to the last bit.
func (m *model) sameBits(other *model) (same int) {
	theirs := other.weights.list()
	for i, tensor := range m.weights.list() {
		for k, weight := range tensor {
			if math.Float32bits(weight) == math.Float32bits(theirs[i][k]) {
				same++
			}
		}
	}
	return same
}
