package placement

import (
	"fmt"
	"math"
)

// Machine is what one node has for the ranks of a job: not what is built into
// it, but what this job may use. Its zero value is a machine about which nothing
// is known.
type Machine struct {
	// CPUs are the CPUs that the kernel lets this process run on. They already
	// respect taskset, cpusets and a batch system's binding. Empty: not asked.
	CPUs CPUSet `json:"cpus,omitzero"`
	// Quota is the CPU time per second that cgroups allow, in CPUs: 1.5 is one and
	// a half CPU. 0 means no limit.
	Quota float64 `json:"quota,omitempty"`
	// MemoryLimit is the memory that cgroups allow, in bytes. 0 means no limit, or
	// not asked.
	MemoryLimit int64 `json:"memory,omitempty"`
	// GPUs are those that a program can use here, in the order of their PCI
	// addresses, before any variable such as CUDA_VISIBLE_DEVICES hides some.
	GPUs []GPU `json:"gpus,omitempty"`
	// Hidden are the variables that hide GPUs here, where the ranks of this machine have
	// their own from a batch system; nil: those of the request.
	Hidden *Visibility `json:"-"`
	// Topology is what the node consists of; nil: not asked.
	Topology *Topology `json:"topology,omitempty"`
	// Notes are allNotes on what was strange, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Vendor is the maker of a GPU, as a lower-case word.
type Vendor string

// The vendors whose GPUs are found. Where a machine has GPUs of several, the
// first of this list that has any is meant: a workstation's processor often
// brings a small GPU of its own.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

// GPU is one GPU of a machine.
type GPU struct {
	// Index counts the GPUs of one vendor in the order of their PCI addresses. It
	// is what CUDA_VISIBLE_DEVICES counts under CUDA_DEVICE_ORDER=PCI_BUS_ID.
	Index int `json:"index"`
	// PCI is the address on the PCI bus in the kernel's spelling: "0000:1b:00.0".
	PCI    string `json:"pci"`
	Vendor Vendor `json:"vendor"`
	// UUID is the name by which visibility variables may call the GPU
	// ("GPU-8f6b0f6c-…"); "" where it is not known.
	UUID string `json:"uuid,omitempty"`

	// What follows is known with a Topology only.

	Name   string `json:"name,omitempty"`   // "NVIDIA H100 80GB HBM3"
	Memory int64  `json:"memory,omitempty"` // bytes, 0: not known
	Bus    *Bus   `json:"bus,omitempty"`
	Links  []Link `json:"links,omitempty"` // to other GPUs
	Used   bool   `json:"used,omitempty"`  // a process uses it now, as far as can be seen
	// MIG are the UUIDs of the parts into which it is divided.
	MIG []string `json:"mig,omitempty"`
	// Peers tell of other GPUs whether their memory can be reached without a copy
	// through the host's.
	Peers []Peer `json:"peers,omitempty"`
	// MemoryNode is the NUMA node that the GPU's own memory is, as on a Grace; 0: none.
	MemoryNode int `json:"memory_node,omitempty"`
}

// Peer is what a GPU may do with the memory of another one.
type Peer struct {
	PCI    string    `json:"pci"` // address of the other GPU
	Access P2PStatus `json:"access"`
}

// P2PStatus is "ok" or says why there is no peer-to-peer access.
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

// is reports whether both are the same GPU, or part of one.
func (g GPU) is(other GPU) bool {
	return g.Vendor == other.Vendor && g.PCI == other.PCI && g.UUID == other.UUID && g.Index == other.Index
}

// UsableCPUs returns how many CPUs the job can keep busy: the allowed ones, or
// fewer where a quota is below. It is at least 1, or 0 where the CPUs are not known.
func (m Machine) UsableCPUs() int {
	n := m.CPUs.Len()
	if n == 0 {
		return 0
	}
	return max(1, int(m.cpuTime(n)))
}

// Cores returns on how many cores the job may run, CPUs where cores are not known: what
// mpirun takes for slots where nobody says how many there are.
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

// Slots returns how many ranks it takes where they are to be one per core: its cores, or
// fewer where a quota keeps fewer busy; at least 1.
func (m Machine) Slots() int {
	slots := m.Cores()
	if usable := m.UsableCPUs(); usable > 0 {
		slots = min(slots, usable)
	}
	return max(1, slots)
}

// cpuTime is the smaller of n CPUs and the quota.
func (m Machine) cpuTime(n int) float64 {
	if m.Quota > 0 {
		return math.Min(float64(n), m.Quota)
	}
	return float64(n)
}

// ThreadsPerRank returns the number of threads that each of a node's ranks may
// run without getting into another's way: the node's usable CPU time divided by
// its ranks, at least 1. It is 0 where the CPUs are not known.
func ThreadsPerRank(m Machine, ranksOnNode int) int {
	n := m.CPUs.Len()
	if n == 0 || ranksOnNode < 1 {
		return 0
	}
	return max(1, int(m.cpuTime(n)/float64(ranksOnNode)))
}

// CPUReason says in a few words how many CPUs are usable and why: "8 CPUs", or
// "1.5 of 8 CPUs by cgroup quota".
func (m Machine) CPUReason() string {
	n := m.CPUs.Len()
	if m.Quota > 0 && m.Quota < float64(n) {
		return fmt.Sprintf("%.4g of %s by cgroup quota", m.Quota, plural(n, "CPU"))
	}
	return plural(n, "CPU")
}

// areMore begins a sentence on too many: "1 rank is more than", "4 ranks are more than".
func areMore(n int, noun string) string {
	return plural(n, noun) + " " + verb(n) + " more than"
}

// verb goes with a number of things.
func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// plural writes a number with its noun: "1 rank", "4 ranks".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}
