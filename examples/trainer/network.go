package main

import (
	"math"
	"math/rand/v2"
)

// tensors are the network's weights, or one number for each of them. Rows belong to the unit that they lead to.
type tensors struct {
	w1, b1 []float32 // pixels to hidden units: hidden × pixels, hidden
	w2, b2 []float32 // hidden units to answers: classes × hidden, classes
}

// newTensors makes those of a network with hidden units between the pixels and the ten answers.
func newTensors(hidden int) tensors {
	return tensors{
		make([]float32, hidden*pixels), make([]float32, hidden), make([]float32, classes*hidden),
		make([]float32, classes),
	}
}

// list has the tensors in the order in which a backward pass finds their gradients: the last layer's first.
func (t tensors) list() [][]float32 { return [][]float32{t.w2, t.b2, t.w1, t.b1} }

func (t tensors) count() (n int) {
	for _, tensor := range t.list() {
		n += len(tensor)
	}
	return n
}

func (t tensors) clear() {
	for _, tensor := range t.list() {
		clear(tensor)
	}
}

// add adds other, element by element.
func (t tensors) add(other tensors) {
	theirs := other.list()
	for i, tensor := range t.list() {
		for k, value := range theirs[i] {
			tensor[k] += value
		}
	}
}

// randomWeights are uniform within ±1/√inputs.
func randomWeights(dice *rand.Rand, hidden int) tensors {
	t := newTensors(hidden)
	fill := func(tensor []float32, inputs int) {
		for i := range tensor {
			tensor[i] = (2*dice.Float32() - 1) / float32(math.Sqrt(float64(inputs)))
		}
	}
	fill(t.w1, pixels)
	fill(t.b1, pixels)
	fill(t.w2, hidden)
	fill(t.b2, hidden)
	return t
}

// activations is what one image leads to.
type activations struct {
	image  *image
	hidden []float32
	answer [classes]float32 // probabilities; after the loss is known their errors
}

// forward runs an image through the network.
func (t tensors) forward(one *image) (a activations) {
	hidden := len(t.b1)
	a.image, a.hidden = one, make([]float32, hidden)
	for unit := range a.hidden {
		a.hidden[unit] = max(0, t.b1[unit]+dot(t.w1[unit*pixels:(unit+1)*pixels], one.pixels[:]))
	}
	largest := float32(math.Inf(-1))
	for class := range a.answer {
		a.answer[class] = t.b2[class] + dot(t.w2[class*hidden:(class+1)*hidden], a.hidden)
		largest = max(largest, a.answer[class])
	}
	sum := float32(0)
	for class, value := range a.answer {
		a.answer[class] = float32(math.Exp(float64(value - largest)))
		sum += a.answer[class]
	}
	for class := range a.answer {
		a.answer[class] /= sum
	}
	return a
}

// guess is the digit that the network sees.
func (t tensors) guess(one *image) (best int) {
	a := t.forward(one)
	for class, probability := range a.answer {
		if probability > a.answer[best] {
			best = class
		}
	}
	return best
}

// loss is the cross entropy of the answer; it turns the answer into its error.
func (a *activations) loss() float64 {
	loss := -math.Log(max(float64(a.answer[a.image.digit]), 1e-30))
	a.answer[a.image.digit]--
	return loss
}

// lastLayer adds to gradients what an image contributes to those of the answers' weights.
func (a *activations) lastLayer(gradients tensors) {
	hidden := len(a.hidden)
	for class, err := range a.answer {
		scaleAdd(gradients.w2[class*hidden:(class+1)*hidden], err, a.hidden)
		gradients.b2[class] += err
	}
}

// firstLayer does the same for the hidden units' weights.
func (a *activations) firstLayer(weights, gradients tensors) {
	hidden := len(a.hidden)
	for unit, value := range a.hidden {
		if value <= 0 {
			continue
		}
		err := float32(0)
		for class, answerError := range a.answer {
			err += answerError * weights.w2[class*hidden+unit]
		}
		scaleAdd(gradients.w1[unit*pixels:(unit+1)*pixels], err, a.image.pixels[:])
		gradients.b1[unit] += err
	}
}

func dot(a, b []float32) (sum float32) {
	for i, value := range a {
		sum += value * b[i]
	}
	return sum
}

func scaleAdd(to []float32, scale float32, from []float32) {
	for i, value := range from {
		to[i] += scale * value
	}
}
