package placement

import (
	"fmt"
	"math"
)

// Machine is what a job may use of a node, not what the node has installed. Its zero value is a
// machine about which nothing is known.
type Machine struct {
	// CPUs are the CPUs that the kernel lets this process run on, within taskset, cpusets and a
	// batch system's binding. Empty if not read.
	CPUs CPUSet `json:"cpus,omitzero"`
	// Quota is the limit of cgroups on CPU time per second, in CPUs: 1.5 is one and a half CPUs. 0
	// means no limit.
	Quota float64 `json:"cpu_quota,omitempty"`
	// MemoryLimit is the limit of cgroups on memory, in bytes. 0 means no limit, or not read.
	MemoryLimit int64 `json:"memory_limit_bytes,omitempty"`
	// GPUs are those that a program can use, in the order of their PCI addresses, before variables
	// such as CUDA_VISIBLE_DEVICES hide some.
	GPUs []GPU `json:"gpus,omitempty"`
	// Hidden are the variables that hide GPUs on this machine if a batch system set other ones
	// there; nil means those of the request.
	Hidden *Visibility `json:"-"`
	// Topology describes the parts of the node; nil if not read.
	Topology *Topology `json:"topology,omitempty"`
	// Notes are sentences about anything unusual.
	Notes []string `json:"notes,omitempty"`
}

// Vendor is the manufacturer of a GPU in lower case.
type Vendor string

// The supported vendors. On a machine with GPUs of several vendors, the first one in this list is
// used: the processor of a workstation often has a small GPU.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

// GPU is one GPU of a machine.
type GPU struct {
	// Index numbers the GPUs of one vendor in the order of their PCI addresses, as
	// CUDA_VISIBLE_DEVICES does with CUDA_DEVICE_ORDER=PCI_BUS_ID.
	Index int `json:"index"`
	// PCI is the address on the PCI bus in the kernel's format: "0000:1b:00.0".
	PCI    string `json:"pci_address"`
	Vendor Vendor `json:"vendor"` // "nvidia", "amd" or "intel"
	// UUID identifies the GPU in visibility variables ("GPU-8f6b0f6c-…"); empty if not known.
	UUID string `json:"uuid,omitempty"`

	// The following fields are known only with a Topology.

	Name   string `json:"name,omitempty"`         // "NVIDIA H100 80GB HBM3"
	Memory int64  `json:"memory_bytes,omitempty"` // bytes, 0: not known
	Bus    *Bus   `json:"bus,omitempty"`          // place on the PCI bus; absent if unknown
	Links  []Link `json:"links,omitempty"`        // to other GPUs
	Used   bool   `json:"used,omitempty"`         // a process uses it now, as far as known
	// MIG are the UUIDs of the instances that the GPU is divided into.
	MIG []string `json:"mig,omitempty"`
	// Peers describes peer-to-peer access to the memory of other GPUs.
	Peers []Peer `json:"peers,omitempty"`
	// MemoryNode is the NUMA node of the GPU's own memory, as on Grace; 0 if it has none.
	MemoryNode int `json:"memory_node,omitempty"`
}

// Peer describes a GPU's access to the memory of another GPU.
type Peer struct {
	PCI    string    `json:"pci_address"` // address of the other GPU
	Access P2PStatus `json:"access"`      // "ok", or why it is impossible
}

// P2PStatus is "ok" or the reason why there is no peer-to-peer access.
type P2PStatus string

// The answers of NVIDIA's library; its number 0 is P2POK.
const (
	P2POK        P2PStatus = "ok"
	P2PChipset   P2PStatus = "chipset not supported"
	P2PGPU       P2PStatus = "GPU not supported"
	P2PTopology  P2PStatus = "topology not supported"
	P2PDisabled  P2PStatus = "disabled by a registry key"
	P2PNone      P2PStatus = "not supported"
	P2PUndefined P2PStatus = "unknown"
)

// is reports whether both are the same GPU or instances of the same one.
func (g GPU) is(other GPU) bool {
	return g.Vendor == other.Vendor && g.PCI == other.PCI && g.UUID == other.UUID && g.Index == other.Index
}

// UsableCPUs returns how many CPUs the job can keep busy: the allowed ones, or fewer with a lower
// quota. It is at least 1, or 0 if the CPUs are not known.
func (m Machine) UsableCPUs() int {
	n := m.CPUs.Len()
	if n == 0 {
		return 0
	}
	return max(1, int(m.cpuTime(n)))
}

// Cores returns the number of cores that the job may run on, or of CPUs if cores are not known.
// mpirun uses it as the default number of slots.
func (m Machine) Cores() int {
	if m.Topology == nil {
		return m.CPUs.Len()
	}
	seen := make(map[int]bool)
	for _, cpu := range m.Topology.CPUs {
		if m.CPUs.Has(cpu.ID) {
			seen[cpu.Core] = true
		}
	}
	return len(seen)
}

// Slots returns the number of ranks at one per core, at least 1: the cores, or fewer if a quota
// keeps fewer busy.
func (m Machine) Slots() int {
	slots := m.Cores()
	if usable := m.UsableCPUs(); usable > 0 {
		slots = min(slots, usable)
	}
	return max(1, slots)
}

// cpuTime returns the smaller of n CPUs and the quota.
func (m Machine) cpuTime(n int) float64 {
	if m.Quota > 0 {
		return math.Min(float64(n), m.Quota)
	}
	return float64(n)
}

// ThreadsPerRank returns the number of threads that each rank of a node can run without disturbing
// others: the usable CPU time of the node divided by its ranks, at least 1. It is 0 if the CPUs are
// not known.
func ThreadsPerRank(m Machine, ranksOnNode int) int {
	n := m.CPUs.Len()
	if n == 0 || ranksOnNode < 1 {
		return 0
	}
	return max(1, int(m.cpuTime(n)/float64(ranksOnNode)))
}

// CPUReason describes how many CPUs are usable and why: "8 CPUs", or "1.5 of 8 CPUs by cgroup
// quota".
func (m Machine) CPUReason() string {
	n := m.CPUs.Len()
	if m.Quota > 0 && m.Quota < float64(n) {
		return fmt.Sprintf("%.4g of %s by cgroup quota", m.Quota, plural(n, "CPU"))
	}
	return plural(n, "CPU")
}

// areMore begins a sentence about too many ranks: "1 rank is more than", "4 ranks are more than".
func areMore(ranks int) string {
	return plural(ranks, "rank") + " " + verb(ranks) + " more than"
}

// verb returns "is" or "are" to match a number.
func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// plural formats a number with its noun: "1 rank", "4 ranks".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}
