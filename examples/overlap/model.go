package main

import (
	"context"
	"fmt"
	"time"

	"gorun/comm"
)

// model has gradients and computes for the requested time.
type model struct {
	options
	group     *comm.Group
	gradients [][]float32 // the last layer's first, the order of a backward pass
	bucketer  *comm.Bucketer[float32]
	views     [][]float32 // the same gradients, where the Bucketer reduces them
	turns     int         // of work, for a layer
	scratch   [1024]float32
}

func newModel(ctx context.Context, g *comm.Group, o options) (*model, error) {
	m := &model{options: o, group: g, gradients: make([][]float32, o.layers)}
	for layer := range m.gradients {
		m.gradients[layer] = make([]float32, o.size)
	}
	var err error
	if m.bucketer, err = comm.NewBucketer(ctx, g, comm.Avg, o.bucket, m.gradients...); err != nil {
		return nil, err
	}
	m.views = m.bucketer.Views()
	// All ranks do the same number of turns, the one that the fastest found: equal work, as in training.
	turns := []int64{m.calibrate()}
	if err := comm.AllReduce(ctx, g, turns, turns, comm.Max); err != nil {
		return nil, err
	}
	m.turns = int(turns[0])
	return m, nil
}

// calibrate returns how many turns of work fill the time that a layer computes.
func (m *model) calibrate() int64 {
	best := time.Duration(1<<63 - 1)
	const turns = 100
	for range 10 {
		begun := time.Now()
		m.work(turns)
		best = min(best, time.Since(begun))
	}
	return max(1, int64(turns*float64(m.compute)/float64(best)))
}

// layer computes one layer's gradients, here or elsewhere, where all but the last one cost this CPU nothing.
func (m *model) layer(gradients []float32) {
	if m.elsewhere {
		time.Sleep(m.compute)
		gradients = gradients[len(gradients)-1:]
	} else {
		m.work(m.turns)
	}
	for i := range gradients {
		gradients[i] = float32(m.group.Rank())
	}
}

// work multiplies and adds within the first cache, so that it competes with communication for CPUs but not for memory.
func (m *model) work(turns int) {
	for range turns {
		for i, value := range m.scratch {
			m.scratch[i] = value*0.5 + 1
		}
	}
}

// backward computes all layers' gradients, the last one's first, and says of each that it is ready.
func (m *model) backward(all [][]float32, ready func(layer int) error) error {
	for layer, gradients := range all {
		m.layer(gradients)
		if err := ready(layer); err != nil {
			return err
		}
	}
	return nil
}

func nobody(int) error { return nil }

// computeOnly is a step without communication.
func (m *model) computeOnly(context.Context) error { return m.backward(m.gradients, nobody) }

// reduceOnly is a step without computing: every gradient is there at once.
func (m *model) reduceOnly(ctx context.Context) error {
	for layer, gradients := range m.views {
		gradients[len(gradients)-1] = float32(m.group.Rank())
		if err := m.bucketer.Ready(ctx, layer); err != nil {
			return err
		}
	}
	return m.bucketer.Wait()
}

// oneAfterTheOther reduces each layer's gradients when all have been computed.
func (m *model) oneAfterTheOther(ctx context.Context) error {
	if err := m.backward(m.gradients, nobody); err != nil {
		return err
	}
	for _, gradients := range m.gradients {
		if err := comm.AllReduce(ctx, m.group, gradients, gradients, comm.Avg); err != nil {
			return err
		}
	}
	return nil
}

// overlapped reduces while it computes.
func (m *model) overlapped(ctx context.Context) error {
	if err := m.backward(m.views, func(layer int) error { return m.bucketer.Ready(ctx, layer) }); err != nil {
		return err
	}
	return m.bucketer.Wait()
}

// check looks at the average that a step of this kind left: that of the ranks' numbers, if it reduced at all.
func (m *model) check(kind int) error {
	want, all := float32(m.group.Size()-1)/2, m.gradients
	switch kind {
	case 0: // only computed
		want = float32(m.group.Rank())
	case 1, 3:
		all = m.views
	}
	for layer, gradients := range all {
		if last := gradients[len(gradients)-1]; last != want {
			return fmt.Errorf("the gradients of layer %d are %v, not %v: please report this", layer, last, want)
		}
	}
	return nil
}
