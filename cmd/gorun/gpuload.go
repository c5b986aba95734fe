package main

import (
	"strconv"

	"gorun/launcher/registry"
	"gorun/placement/gpufacts"
)

// gpuLoads holds the utilisation of GPUs by PCI address; nil if nothing is known.
type gpuLoads map[string]gpufacts.GPU

// queryGPUs queries NVML for the GPUs of ranks on this host.
func queryGPUs(j registry.Job) gpuLoads {
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
	var loads gpuLoads
	for _, g := range facts.GPUs {
		if wanted[g.PCI] && (g.Busy != nil || g.Taken != nil) {
			if loads == nil {
				loads = gpuLoads{}
			}
			loads[g.PCI] = g
		}
	}
	return loads
}

// cells returns the mean utilisation of a rank's GPUs in percent, and the sum of their used memory, which may be other
// processes'.
func (l gpuLoads) cells(r registry.Rank) (busy, memory string) {
	percent, used, busyKnown, memoryKnown := 0, int64(0), 0, 0
	for _, pci := range r.GPUs {
		g := l[pci]
		if !r.Here {
			continue
		}
		if g.Busy != nil {
			percent, busyKnown = percent+*g.Busy, busyKnown+1
		}
		if g.Taken != nil {
			used, memoryKnown = used+*g.Taken, memoryKnown+1
		}
	}
	busy, memory = "-", "-"
	if busyKnown > 0 {
		busy = strconv.Itoa(percent / busyKnown)
	}
	if memoryKnown > 0 {
		memory = sizeText(&used)
	}
	return busy, memory
}

// gpuMonitor queries GPUs in the background.
type gpuMonitor struct {
	results chan gpuLoads
	pending bool
	last    gpuLoads
}

// latest returns the last known loads, and starts a query unless one is pending.
func (m *gpuMonitor) latest(j registry.Job) gpuLoads {
	if m.results == nil {
		m.results = make(chan gpuLoads, 1)
	}
	select {
	case m.last = <-m.results:
		m.pending = false
	default:
	}
	if !m.pending {
		m.pending = true
		go func() { m.results <- queryGPUs(j) }()
	}
	return m.last
}
