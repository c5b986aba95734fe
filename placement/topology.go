package placement

import (
	"fmt"
	"slices"
)

// Topology is what a node consists of and how far its parts are from each other:
// all that the decision needs about which rank goes where on it. It has what is
// online, allowed or not; what a job may use of it is in [Machine] (CPUs) and
// below (Memories).
type Topology struct {
	// CPUs are the online CPUs by number.
	CPUs []CPU `json:"cpus"`
	// Nodes are the online NUMA nodes by number, which may have holes. A machine
	// without NUMA has one, number 0.
	Nodes []NUMANode `json:"nodes"`
	// Memories are the nodes of which this process may have memory (cpuset); a list
	// of nodes is written as one of CPUs is. Empty: all.
	Memories CPUSet `json:"memories,omitzero"`
	// Isolated are CPUs that the kernel's scheduler leaves alone (isolcpus=), and
	// Offline those that are there but switched off.
	Isolated CPUSet `json:"isolated,omitzero"`
	Offline  CPUSet `json:"offline,omitzero"`
	NICs     []NIC  `json:"nics,omitempty"`
	// Virtual says that the PCI tree is a virtual machine's, in which devices hang
	// directly below a host bridge: distances cannot be told.
	Virtual bool `json:"virtual_pci,omitempty"`
}

// Check refuses numbers that Linux gives to no CPU and no NUMA node: sets have room for the
// largest of their numbers, and a topology may be another host's word.
func (t *Topology) Check() error {
	for _, cpu := range t.CPUs {
		if cpu.ID < 0 || cpu.ID >= maxCPU {
			return fmt.Errorf("CPU %d is not a CPU number below %d", cpu.ID, maxCPU)
		}
	}
	for _, node := range t.Nodes {
		if node.ID < 0 || node.ID >= maxCPU {
			return fmt.Errorf("NUMA node %d is not a number below %d", node.ID, maxCPU)
		}
	}
	return nil
}

// CPU is one logical CPU, a hardware thread, and the objects that it is part of.
// Objects of a kind are counted over the whole machine from 0, in the order of
// the machine's tree (packages, then NUMA nodes, dies, L3 caches, L2 caches,
// cores), neighbours by their lowest online CPU, which is hwloc's logical order;
// -1: the machine does not tell (dies and caches only: without other knowledge
// there is one package, and every CPU is a core).
type CPU struct {
	ID      int `json:"id"` // the kernel's number
	Package int `json:"package"`
	Node    int `json:"node"` // the kernel's number of its NUMA node
	Die     int `json:"die"`
	L3      int `json:"l3"`
	L2      int `json:"l2"`
	Core    int `json:"core"`
	Thread  int `json:"thread"` // 0 is the core's first hardware thread
	// Kind tells cores of different power apart, the strongest 0; a rank's CPUs are
	// of one kind where that can be.
	Kind int `json:"kind,omitempty"`
}

// NUMANode is one NUMA node. Nodes without CPUs (CXL, HBM, the memory of a GPU on
// a Grace) are never a place for ranks.
type NUMANode struct {
	ID     int    `json:"id"`
	CPUs   CPUSet `json:"cpus,omitzero"`
	Memory int64  `json:"memory"` // bytes
	// Distances are those to Topology.Nodes, in their order, as the firmware says
	// them: 10 is local.
	Distances []int `json:"distances,omitempty"`
}

// Bus is where a device hangs in the PCI tree.
type Bus struct {
	// Address is the device's own, "0000:1b:00.0".
	Address string `json:"address"`
	// Root is the host bridge, "pci0000:15"; Bridges are the addresses of the
	// bridges between it and the device, the root port first.
	Root    string   `json:"root,omitempty"`
	Bridges []string `json:"bridges,omitempty"`
	// Node is the number of its NUMA node, -1 where nobody knows, and Near are the
	// CPUs that are near to it.
	Node int    `json:"node"`
	Near CPUSet `json:"near,omitzero"`
	// Link is its PCIe link; nil: not asked, or not told, as by many virtual machines.
	Link *PCIeLink `json:"link,omitempty"`
}

// PCIeLink is the PCIe link of a device to the port above it.
type PCIeLink struct {
	// GTps and Width are what both ends can do at most: gigatransfers a second on
	// each lane, and lanes.
	GTps  float64 `json:"gt_per_s"`
	Width int     `json:"width"`
	// GTpsNow and WidthNow are how it runs now; 0: not told. Many devices slow down
	// while they have nothing to do; fewer lanes than there could be are a card that
	// sits badly, or a slot that has no more.
	GTpsNow  float64 `json:"gt_per_s_now,omitempty"`
	WidthNow int     `json:"width_now,omitempty"`
}

// pcieRates are the gigatransfers a second on a lane of PCIe 1.0, 2.0, …
var pcieRates = []float64{2.5, 5, 8, 16, 32, 64}

// Generation is the version of PCIe that has this rate, 0 for a rate that none has.
func (l PCIeLink) Generation() int { return slices.Index(pcieRates, l.GTps) + 1 }

// Gbps is what the lanes in use carry at most each way, in 10^9 bits a second: of
// each transfer a bit, less the code (8b/10b, 128b/130b; since PCIe 6.0 none).
func (l PCIeLink) Gbps() float64 {
	code := 128.0 / 130
	switch generation := l.Generation(); {
	case generation <= 2:
		code = 8.0 / 10
	case generation >= 6:
		code = 1
	}
	return l.GTps * float64(l.Lanes()) * code
}

// Lanes are those that are in use.
func (l PCIeLink) Lanes() int {
	if l.WidthNow > 0 {
		return min(l.Width, l.WidthNow)
	}
	return l.Width
}

// String is "PCIe 5.0 x16", or "PCIe 5.0 x8 of x16" where not all lanes are in use.
func (l PCIeLink) String() string {
	text := fmt.Sprintf("PCIe %d.0 x%d", l.Generation(), l.Lanes())
	if l.Lanes() < l.Width {
		text += fmt.Sprintf(" of x%d", l.Width)
	}
	return text
}

// NICKind is the kind of a network interface.
type NICKind string

// The kinds.
const (
	Ethernet   NICKind = "ethernet"
	InfiniBand NICKind = "infiniband"
	RoCE       NICKind = "roce" // RDMA over Ethernet
	EFA        NICKind = "efa"
	Virtual    NICKind = "virtual" // a bridge, bond, tunnel, VLAN: no hardware of its own
)

// NIC is a network interface, or a port of an RDMA device together with its
// network interface.
type NIC struct {
	// Name is the RDMA device's ("mlx5_0"), else the interface's ("eno1").
	Name string  `json:"name"`
	Kind NICKind `json:"kind"`
	// Interface is the network interface, "" if there is none (EFA).
	Interface string `json:"interface,omitempty"`
	Port      int    `json:"port,omitempty"` // of an RDMA device, from 1
	Up        bool   `json:"up"`
	// State is the kernel's word where it is not up: "down", "INIT", "Polling".
	State string  `json:"state,omitempty"`
	Gbps  float64 `json:"gbps,omitempty"` // 0: not known
	// GID is the index of the port's RoCE v2 address, -1 where there is none or it
	// needs none.
	GID int `json:"gid,omitempty"`
	// GIDIPv6 says that it is an IPv6 address.
	GIDIPv6 bool `json:"gid_ipv6,omitempty"`
	Bus     *Bus `json:"bus,omitempty"` // nil: no PCI device
}

// Link is a direct connection between GPUs, such as NVLink or XGMI.
type Link struct {
	Peer  string `json:"peer,omitempty"` // PCI address of the other GPU
	Kind  string `json:"kind"`           // "nvlink" or "xgmi"
	Count int    `json:"count"`
}

// Node returns a NUMA node by its number, or nil.
func (t *Topology) Node(id int) *NUMANode {
	if i := slices.IndexFunc(t.Nodes, func(n NUMANode) bool { return n.ID == id }); i >= 0 {
		return &t.Nodes[i]
	}
	return nil
}

// CPU returns a CPU by its number, or nil.
func (t *Topology) CPU(id int) *CPU {
	if i, found := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return c.ID - id }); found {
		return &t.CPUs[i]
	}
	return nil
}
