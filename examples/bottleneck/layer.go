package main

// layer is y = W·x with its gradients, the plain way.
type layer struct {
	width              int
	weights, gradients []float32
	x, y               []float32 // y also holds the error of the output
	inputError         []float32
}

func newLayer(width int) *layer {
	l := &layer{
		width, make([]float32, width*width), make([]float32, width*width), make([]float32, width),
		make([]float32, width), make([]float32, width),
	}
	for i := range l.weights {
		l.weights[i] = float32(i%7) - 3
	}
	for i := range l.x {
		l.x[i] = float32(i%5) - 2
	}
	return l
}

// step does a forward and a backward pass for each sample: three multiplications of a vector by a matrix, 6 · width²
// operations.
func (l *layer) step(batch int) {
	for range batch {
		l.forward()
		l.backward()
	}
}

func (l *layer) forward() {
	for row := range l.y {
		sum := float32(0)
		for column, weight := range l.weights[row*l.width : (row+1)*l.width] {
			sum += weight * l.x[column]
		}
		l.y[row] = sum
	}
}

func (l *layer) backward() {
	clear(l.inputError)
	for row, err := range l.y {
		weights, gradients := l.weights[row*l.width:(row+1)*l.width], l.gradients[row*l.width:(row+1)*l.width]
		for column, weight := range weights {
			gradients[column] = err * l.x[column]
			l.inputError[column] += err * weight
		}
	}
}
