package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// synthetic builds a machine from hwloc's synthetic description, such as "pack:2 numa:1 l3:1 core:4
// pu:2". The kernel's CPU numbers are equal to hwloc's logical numbers. Omitted kinds are unknown
// (-1), except for one NUMA node.
func synthetic(t testing.TB, description string) Machine {
	t.Helper()
	topology := &Topology{}
	counts := map[string]int{}
	var levels []level
	for _, field := range strings.Fields(description) {
		name, count, _ := strings.Cut(field, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("machine %q: %v", description, err)
		}
		levels = append(levels, level{name, n})
	}
	grow(topology, levels, counts, map[string]int{"pack": 0, "numa": 0, "die": -1, "l3": -1, "l2": -1})
	m := Machine{Topology: topology}
	nodes := counts["numa"]
	for id := range max(1, nodes) {
		node := NUMANode{ID: id, Memory: 64 << 30}
		for other := range max(1, nodes) {
			node.Distances = append(node.Distances, syntheticDistance(id, other, nodes/max(1, counts["pack"])))
		}
		topology.Nodes = append(topology.Nodes, node)
	}
	for _, cpu := range topology.CPUs {
		m.CPUs = m.CPUs.With(cpu.ID)
		node := &topology.Nodes[cpu.Node]
		node.CPUs = node.CPUs.With(cpu.ID)
	}
	return m
}

type level struct {
	name  string
	count int
}

// syntheticDistance is 10 to the node itself, 12 within a package, and 21 otherwise.
func syntheticDistance(a, b, perPackage int) int {
	switch {
	case a == b:
		return 10
	case perPackage > 0 && a/perPackage == b/perPackage:
		return 12
	}
	return 21
}

// grow adds the objects of the first level and their descendants.
func grow(topology *Topology, levels []level, counts, at map[string]int) {
	here := levels[0]
	for i := range here.count {
		at[here.name] = counts[here.name]
		counts[here.name]++
		if here.name != "pu" {
			grow(topology, levels[1:], counts, at)
			continue
		}
		topology.CPUs = append(topology.CPUs, CPU{
			ID: at["pu"], Package: at["pack"], Node: at["numa"], Die: at["die"], L3: at["l3"], L2: at["l2"], Core: at["core"],
			Thread: i,
		})
	}
}

// withGPUs adds GPUs near NUMA nodes, in PCI address order.
func withGPUs(m Machine, nodes ...int) Machine {
	m.GPUs = nil
	for i, node := range nodes {
		address := fmt.Sprintf("0000:%02x:00.0", 16+i)
		m.GPUs = append(m.GPUs, GPU{
			Index: i, PCI: address, Vendor: NVIDIA, UUID: fmt.Sprintf("GPU-%d", i),
			Bus: &Bus{Address: address, Node: node},
		})
	}
	return m
}

// renumbered assigns the CPU numbers of a typical server: the first threads of all cores, then the
// second threads.
func renumbered(m Machine) Machine {
	topology := *m.Topology
	threads := 1
	for _, cpu := range topology.CPUs {
		threads = max(threads, cpu.Thread+1)
	}
	all := len(topology.CPUs)
	m.CPUs, topology.CPUs = CPUSet{}, make([]CPU, all)
	topology.Nodes = append([]NUMANode(nil), topology.Nodes...)
	for i := range topology.Nodes {
		topology.Nodes[i].CPUs = CPUSet{}
	}
	for _, cpu := range m.Topology.CPUs {
		cpu.ID = cpu.Core + cpu.Thread*all/threads
		topology.CPUs[cpu.ID] = cpu
		m.CPUs = m.CPUs.With(cpu.ID)
		node := &topology.Nodes[cpu.Node]
		node.CPUs = node.CPUs.With(cpu.ID)
	}
	m.Topology = &topology
	return m
}
