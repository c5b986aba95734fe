package gpufacts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gorun/placement"
)

type merger struct {
	machine *placement.Machine
	notes   []string
}

func (g *merger) note(format string, args ...any) {
	g.notes = append(g.notes, fmt.Sprintf(format, args...))
}

// Merge adds facts about GPUs to a machine. It returns notes about inconsistencies, one sentence each.
// Values without facts are unchanged.
func Merge(m *placement.Machine, f Facts) (notes []string) {
	g := &merger{m, slices.Clone(f.Notes)}
	g.addMissing(f.GPUs)
	for _, reported := range f.GPUs {
		g.describe(g.of(reported.PCI), reported)
	}
	for _, reported := range f.GPUs {
		g.connect(g.of(reported.PCI), reported, f.GPUs)
	}
	return g.notes
}

// of returns the machine's GPU at an address, or nil.
func (g *merger) of(pci string) *placement.GPU {
	i := slices.IndexFunc(g.machine.GPUs, func(gpu placement.GPU) bool { return isNVIDIA(gpu) && gpu.PCI == pci })
	if i < 0 {
		return nil
	}
	return &g.machine.GPUs[i]
}

func isNVIDIA(g placement.GPU) bool { return g.Vendor == placement.NVIDIA }

// addMissing adds GPUs that the kernel's files do not describe, as under WSL.
func (g *merger) addMissing(reported []GPU) {
	all, before := &g.machine.GPUs, len(g.machine.GPUs)
	for _, gpu := range reported {
		if g.of(gpu.PCI) == nil {
			*all = append(*all, placement.GPU{PCI: gpu.PCI, Vendor: placement.NVIDIA})
		}
	}
	if len(*all) == before {
		return
	}
	slices.SortStableFunc(*all, func(a, b placement.GPU) int {
		switch {
		case isNVIDIA(a) && isNVIDIA(b):
			return cmp.Compare(a.PCI, b.PCI)
		case isNVIDIA(a):
			return -1
		case isNVIDIA(b):
			return 1
		}
		return 0
	})
	for i := range *all {
		if isNVIDIA((*all)[i]) {
			(*all)[i].Index = i
		}
	}
}

// describe sets the facts of a single GPU.
func (g *merger) describe(gpu *placement.GPU, reported GPU) {
	gpu.UUID, gpu.Name = cmp.Or(reported.UUID, gpu.UUID), cmp.Or(reported.Name, gpu.Name)
	gpu.Memory = cmp.Or(reported.Memory, gpu.Memory)
	if reported.MIG != nil {
		gpu.MIG = reported.MIG
	}
	if reported.Used != nil {
		gpu.Used = *reported.Used
	}
	topology := g.machine.Topology
	if topology == nil {
		return
	}
	if reported.MemoryNode != nil {
		if node := topology.Node(*reported.MemoryNode); node != nil && node.CPUs.Len() == 0 {
			gpu.MemoryNode = node.ID
		}
	}
	g.place(gpu, reported.Near)
}

// place prefers NVIDIA's affinity if the kernel's files differ or lack it. NVIDIA's affinity may be a
// subset of the kernel's, because some drivers omit CPUs that a cgroup forbids.
func (g *merger) place(gpu *placement.GPU, near placement.CPUSet) {
	var home *placement.NUMANode
	nodes := g.machine.Topology.Nodes
	for i := range nodes {
		if near.Intersects(nodes[i].CPUs) {
			if home != nil {
				return // near several nodes: not specific
			}
			home = &nodes[i]
		}
	}
	if home == nil {
		return
	}
	switch {
	case gpu.Bus == nil:
		gpu.Bus = &placement.Bus{Address: gpu.PCI}
	case gpu.Bus.Node == home.ID:
		return
	case gpu.Bus.Node >= 0:
		g.note("the kernel reports NUMA node %[2]d for GPU %[1]s, NVIDIA's library %[3]d: gorun uses the latter", gpu.PCI,
			gpu.Bus.Node, home.ID)
	}
	gpu.Bus.Node, gpu.Bus.Near = home.ID, home.CPUs
}

// connect sets the facts of pairs of GPUs: NVLinks and peer-to-peer access. An NVSwitch connects all
// GPUs, with the smaller link count of the two.
func (g *merger) connect(gpu *placement.GPU, reported GPU, all []GPU) {
	counts := maps.Clone(reported.Links)
	for _, other := range all {
		if n := min(reported.Switched, other.Switched); n > 0 && other.PCI != reported.PCI {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[other.PCI] += n
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(counts)) {
		if g.of(peer) != nil {
			gpu.Links = append(gpu.Links, placement.Link{Peer: peer, Kind: "nvlink", Count: counts[peer]})
		}
	}
	gpu.Peers = append(gpu.Peers, reported.Peers...)
	if reported.Down > 0 && reported.Switched == 0 && len(reported.Links) == 0 {
		g.note("all %d NVLinks of GPU %s are down: on a machine with NVSwitch, check with `systemctl status "+
			"nvidia-fabricmanager`",
			reported.Down, gpu.PCI)
	}
}
