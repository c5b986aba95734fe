package main

import (
	"strconv"

	"gorun/launcher/registry"
	"gorun/placement/gpufacts"
)

// gpuLoads is what is used of GPUs, by PCI address; nil: nobody knows.
type gpuLoads map[string]gpufacts.GPU

// askGPUs asks NVIDIA's library about the GPUs of ranks on this host, where gorun knows
// which those are. Without the library, or the program that asks it, nothing is known.
func askGPUs(j registry.Job) gpuLoads {
	wanted := map[string]bool{}
	for _, r := range j.Ranks {
		for _, pci := range r.GPUs {
			wanted[pci] = wanted[pci] || r.Here
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	facts, err := nvmlWorker().Facts(len(wanted))
	if err != nil {
		return nil
	}
	loads := gpuLoads{}
	for _, g := range facts.GPUs {
		if wanted[g.PCI] && (g.Busy != nil || g.Taken != nil) {
			loads[g.PCI] = g
		}
	}
	if len(loads) == 0 {
		return nil
	}
	return loads
}

// of is what a rank's GPUs do, as two cells: percent of the last moment, of all of them, and
// memory in use, also by others.
func (l gpuLoads) of(r registry.Rank) (busy, memory string) {
	percent, taken, known, told := 0, int64(0), 0, 0
	for _, pci := range r.GPUs {
		g := l[pci]
		if !r.Here {
			continue
		}
		if g.Busy != nil {
			percent, known = percent+*g.Busy, known+1
		}
		if g.Taken != nil {
			taken, told = taken+*g.Taken, told+1
		}
	}
	busy, memory = "-", "-"
	if known > 0 {
		busy = strconv.Itoa(percent / known)
	}
	if told > 0 {
		memory = size(&taken)
	}
	return busy, memory
}

// gpuWatch asks again and again, beside what waits for no answer.
type gpuWatch struct {
	answers chan gpuLoads
	asking  bool
	last    gpuLoads
}

// look begins to ask, unless the last answer is still awaited, and returns what is known.
func (w *gpuWatch) look(j registry.Job) gpuLoads {
	if w.answers == nil {
		w.answers = make(chan gpuLoads, 1)
	}
	select {
	case w.last = <-w.answers:
		w.asking = false
	default:
	}
	if !w.asking {
		w.asking = true
		go func() { w.answers <- askGPUs(j) }()
	}
	return w.last
}
