package placement

import (
	"fmt"
	"slices"
)

// Topology describes the parts of a node and their distances: all that the placement of ranks on it
// depends on. It covers everything online, allowed or not; what a job may use is in [Machine]
// (CPUs) and in Memories.
type Topology struct {
	// CPUs are the online CPUs by number.
	CPUs []CPU `json:"cpus,omitempty"`
	// Nodes are the online NUMA nodes by number, possibly with gaps. A machine without NUMA has one
	// node, number 0.
	Nodes []NUMANode `json:"nodes,omitempty"`
	// Memories are the nodes whose memory this process may use (cpuset), written like a list of
	// CPUs. Empty means all.
	Memories CPUSet `json:"memory_nodes,omitzero"`
	// CPUs that the kernel's scheduler does not use by itself (isolcpus=)
	Isolated CPUSet `json:"isolated_cpus,omitzero"`
	Offline  CPUSet `json:"offline_cpus,omitzero"` // CPUs that are present but offline
	NICs     []NIC  `json:"nics,omitempty"`        // network interfaces and RDMA ports
	// Virtual reports whether the PCI tree is that of a virtual machine, whose devices are attached
	// directly to a host bridge: it does not show distances.
	Virtual bool `json:"virtual_pci,omitempty"`
}

// Check rejects numbers that Linux gives to no CPU and no NUMA node. A topology may come from
// another host, and sets allocate room for their largest number.
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

// CPU is one logical CPU (hardware thread) with the objects that it is part of. Objects of a kind
// are numbered over the whole machine from 0 in hwloc's logical order: in the order of the
// machine's tree (packages, then NUMA nodes, dies, L3 caches, L2 caches, cores), siblings by their
// lowest online CPU. -1 means not known, for dies and caches only: by default there is one package,
// and every CPU is a core.
type CPU struct {
	ID      int `json:"id"`      // the kernel's number
	Package int `json:"package"` // number of its package
	Node    int `json:"node"`    // the kernel's number of its NUMA node
	Die     int `json:"die"`     // number of its die
	L3      int `json:"l3"`      // number of its L3 cache
	L2      int `json:"l2"`      // number of its L2 cache
	Core    int `json:"core"`    // number of its core
	Thread  int `json:"thread"`  // 0 is the core's first hardware thread
	// Kind groups cores of equal performance, 0 being the fastest. The CPUs of a rank are of one
	// kind if possible.
	Kind int `json:"kind,omitempty"`
}

// NUMANode is one NUMA node. Nodes without CPUs (CXL, HBM, the memory of a GPU on Grace) never get
// ranks.
type NUMANode struct {
	ID     int    `json:"id"`            // the kernel's number
	CPUs   CPUSet `json:"cpus,omitzero"` // CPUs of the node; absent if it has none
	Memory int64  `json:"memory_bytes"`  // bytes
	// Distances are the distances to all NUMA nodes, in their order, as reported by the firmware:
	// 10 is local.
	Distances []int `json:"distances,omitempty"`
}

// Bus is the position of a device in the PCI tree.
type Bus struct {
	// Address is the address of the device: "0000:1b:00.0".
	Address string `json:"pci_address"`
	// Root is the host bridge, "pci0000:15". Bridges are the addresses of the bridges between it
	// and the device, the root port first.
	Root    string   `json:"host_bridge,omitempty"`
	Bridges []string `json:"bridges,omitempty"`
	// Node is the number of its NUMA node, -1 if not known. Near are the CPUs near the device.
	Node int    `json:"node"`
	Near CPUSet `json:"near_cpus,omitzero"`
	// Link is its PCIe link; nil if not read, or not reported, as in many virtual machines.
	Link *PCIeLink `json:"link,omitempty"`
}

// PCIeLink is the PCIe link of a device to the port above it.
type PCIeLink struct {
	GTps  float64 `json:"gigatransfers_per_second"` // the most on each lane that both ends support
	Width int     `json:"lanes"`                    // the most that both ends support
	// current rate; 0 if not known. Many idle devices lower theirs.
	GTpsNow float64 `json:"gigatransfers_per_second_now,omitempty"`
	// lanes in use; 0 if not known. Fewer than supported mean a loose card or a narrower slot.
	WidthNow int `json:"lanes_now,omitempty"`
}

// pcieRates are the gigatransfers per second on a lane of PCIe 1.0, 2.0, …
var pcieRates = []float64{2.5, 5, 8, 16, 32, 64}

// Generation returns the PCIe version with this rate, or 0 if none exists.
func (l PCIeLink) Generation() int { return slices.Index(pcieRates, l.GTps) + 1 }

// Gbps returns the maximum rate of the lanes in use in each direction, in 10^9 bits per second: one
// bit per transfer, less the encoding (8b/10b, 128b/130b; none since PCIe 6.0).
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

// Lanes returns the number of lanes in use.
func (l PCIeLink) Lanes() int {
	if l.WidthNow > 0 {
		return min(l.Width, l.WidthNow)
	}
	return l.Width
}

// String returns "PCIe 5.0 x16", or "PCIe 5.0 x8 of x16" if not all lanes are in use.
func (l PCIeLink) String() string {
	text := fmt.Sprintf("PCIe %d.0 x%d", l.Generation(), l.Lanes())
	if l.Lanes() < l.Width {
		text += fmt.Sprintf(" of x%d", l.Width)
	}
	return text
}

// NICKind is the kind of a network interface.
type NICKind string

// The kinds of network interfaces.
const (
	Ethernet   NICKind = "ethernet"
	InfiniBand NICKind = "infiniband"
	RoCE       NICKind = "roce" // RDMA over Ethernet
	EFA        NICKind = "efa"
	Virtual    NICKind = "virtual" // a bridge, bond, tunnel, VLAN: no hardware of its own
)

// NIC is a network interface, or a port of an RDMA device together with its network interface.
type NIC struct {
	// Name is the name of the RDMA device ("mlx5_0"), or else of the interface ("eno1").
	Name string  `json:"name"`
	Kind NICKind `json:"kind"` // "ethernet", "infiniband", "roce", "efa" or "virtual"
	// Interface is the network interface, or "" if none exists (EFA).
	Interface string `json:"interface,omitempty"`
	Port      int    `json:"port,omitempty"` // of an RDMA device, from 1
	Up        bool   `json:"up"`             // the port is active
	// State is the kernel's name of the state if it is not up: "down", "INIT", "Polling".
	State string  `json:"state,omitempty"`
	Gbps  float64 `json:"gigabits_per_second,omitempty"` // 0: not known
	// GID is the index of the port's RoCE v2 address, -1 if it has or needs none.
	GID int `json:"gid_index,omitempty"`
	// GIDIPv6 reports whether that is an IPv6 address.
	GIDIPv6 bool `json:"gid_ipv6,omitempty"`
	Bus     *Bus `json:"bus,omitempty"` // nil: no PCI device
}

// Link is a direct connection between GPUs, such as NVLink or XGMI.
type Link struct {
	Peer  string `json:"peer,omitempty"` // PCI address of the other GPU
	Kind  string `json:"kind"`           // "nvlink" or "xgmi"
	Count int    `json:"count"`          // number of parallel links
}

// Node returns the NUMA node with the given number, or nil.
func (t *Topology) Node(id int) *NUMANode {
	if i := slices.IndexFunc(t.Nodes, func(n NUMANode) bool { return n.ID == id }); i >= 0 {
		return &t.Nodes[i]
	}
	return nil
}

// CPU returns the CPU with the given number, or nil.
func (t *Topology) CPU(id int) *CPU {
	if i, found := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return c.ID - id }); found {
		return &t.CPUs[i]
	}
	return nil
}
