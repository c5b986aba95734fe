package draw

import "gorun/placement"

// Data is a machine with the ranks on it, for programs.
type Data struct {
	Machine placement.Machine `json:"machine"` // CPUs, memory, GPUs and network adapters
	// Paths has the path classes between all pairs of GPUs and NICs in the matrix.
	Paths []pathData `json:"paths,omitempty"`
	Ranks []rankData `json:"ranks,omitempty"` // where ranks would run; absent without placement options
	// Notes has placement notes.
	Notes []string `json:"notes,omitempty"`
	// Impact is the prediction, if requested.
	Impact *Impact `json:"impact,omitempty"`
}

// pathData is a pair of devices. PCI addresses identify both, as in Machine.
type pathData struct {
	From  string `json:"from"`  // PCI address of the first device
	To    string `json:"to"`    // PCI address of the second device
	Class string `json:"class"` // as in nvidia-smi topo -m: "NV18", "PIX", "SYS"
}

// rankData is the placement of a rank. Memories are NUMA nodes in the format of CPUs, and GPUs are PCI
// addresses.
type rankData struct {
	Rank     int              `json:"rank"`                        // number in the job
	CPUs     placement.CPUSet `json:"cpus,omitzero"`               // CPUs that it may run on; absent if not bound
	Memories placement.CPUSet `json:"memory_nodes,omitzero"`       // NUMA nodes of its memory; absent without a policy
	GPUs     []string         `json:"gpu_pci_addresses,omitempty"` // of its GPU devices; absent if it shares all
	Why      string           `json:"reason,omitempty"`            // why it is placed there
}

func dataOfRank(s Placement) rankData {
	d := rankData{Rank: s.Rank, CPUs: s.CPUs, Memories: s.Memories, Why: s.Why}
	for _, g := range s.GPUs {
		d.GPUs = append(d.GPUs, g.PCI)
	}
	return d
}

// Describe returns a machine as data: the path classes between GPUs and NICs, the placement of ranks, its notes, and
// the prediction (nil without one).
func Describe(m placement.Machine, placed []Placement, notes []string, impact *Impact) Data {
	d := Data{Machine: m, Notes: notes, Impact: impact}
	for _, s := range placed {
		d.Ranks = append(d.Ranks, dataOfRank(s))
	}
	if m.Topology != nil {
		d.Paths = paths(m)
	}
	return d
}

// paths returns each pair once.
func paths(m placement.Machine) []pathData {
	t := newTable(m)
	all := append(t.gpus, t.nics...)
	var pairs []pathData
	for i, from := range all {
		for _, to := range all[i+1:] {
			pairs = append(pairs, pathData{from.bus.Address, to.bus.Address, between(from, to).String()})
		}
	}
	return pairs
}
