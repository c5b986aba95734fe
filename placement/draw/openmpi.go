package draw

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// OpenMPI writes the --report-bindings line of Open MPI 4's mpirun for each rank. It omits the prefix
// with the host and process:
//
//	MCW rank 1 bound to socket 0[core 1[hwt 0-1]], socket 0[core 2[hwt 0-1]]: [../BB/BB/..][../../../..]
//	MCW rank 2 is not bound (or bound to all available processors)
//
// Numbers of sockets and cores count from 0 on the whole machine, in core map order. Numbers of
// hardware threads count within the core.
func OpenMPI(m placement.Machine, placed []Placement) string {
	m = cleaned(m)
	w := &placementList{machine: m, topo: m.Topology, parts: parts(m.Topology)}
	var b strings.Builder
	for _, s := range placed {
		fmt.Fprintf(&b, "MCW rank %d %s\n", s.Rank, w.boundTo(s.CPUs))
	}
	return b.String()
}

func (w *placementList) boundTo(set placement.CPUSet) string {
	free := func(c placement.CPU) bool { return !set.Has(c.ID) }
	switch {
	case set.Len() == 0, len(w.topo.CPUs) > 0 && !slices.ContainsFunc(w.topo.CPUs, free):
		return "is not bound (or bound to all available processors)"
	case len(w.parts) == 0: // the topology is unknown
		return "bound to " + numbered("CPU", numbersOf(set))
	}
	return fmt.Sprintf("bound to %s: %s", strings.Join(w.boundCores(set), ", "), bracketed(w.packageCores(set), allCores))
}

// boundCores lists the cores with hardware threads in a set.
func (w *placementList) boundCores(set placement.CPUSet) (names []string) {
	socket, number := -1, 0
	for i, p := range w.parts {
		if i == 0 || p.pkg != w.parts[i-1].pkg {
			socket++
		}
		for _, c := range p.cores {
			var threads []int
			for thread, cpu := range c.cpus {
				if set.Has(cpu) {
					threads = append(threads, thread)
				}
			}
			if threads != nil {
				names = append(names, fmt.Sprintf("socket %d[core %d[hwt %s]]", socket, number, list(threads)))
			}
			number++
		}
	}
	return names
}
