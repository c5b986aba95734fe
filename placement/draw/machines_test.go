package draw_test

import (
	"fmt"
	"math/rand/v2"

	"gorun/placement"
)

type shape struct {
	packages, nodes, caches, cores, threads int // nodes per package, caches per node, cores per cache
	memory                                  int64
	near, far                               int // distances within and between packages
}

const gib = 1 << 30

func must(list string) placement.CPUSet {
	set, err := placement.ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return set
}

// build creates the machine. The numbers of second threads follow those of all first threads.
func (s shape) build() placement.Machine {
	t := &placement.Topology{}
	total := s.packages * s.nodes * s.caches * s.cores
	per := s.caches * s.cores
	for thread := range s.threads {
		for c := range total {
			t.CPUs = append(t.CPUs, placement.CPU{
				ID: thread*total + c, Package: c / per / s.nodes, Node: c / per, Die: -1, L3: c / s.cores, L2: c, Core: c,
				Thread: thread,
			})
		}
	}
	for i := range s.packages * s.nodes {
		n := placement.NUMANode{ID: i, Memory: s.memory, CPUs: must(fmt.Sprintf("%d-%d", i*per, (i+1)*per-1))}
		if s.threads == 2 {
			n.CPUs = must(fmt.Sprintf("%d-%d,%d-%d", i*per, (i+1)*per-1, total+i*per, total+(i+1)*per-1))
		}
		for j := range s.packages * s.nodes {
			switch {
			case i == j:
				n.Distances = append(n.Distances, 10)
			case i/s.nodes == j/s.nodes:
				n.Distances = append(n.Distances, s.near)
			default:
				n.Distances = append(n.Distances, s.far)
			}
		}
		t.Nodes = append(t.Nodes, n)
	}
	return placement.Machine{CPUs: must(fmt.Sprintf("0-%d", total*s.threads-1)), Topology: t}
}

// bus returns a position below a host bridge.
func bus(address string, node int, root string, bridges ...string) *placement.Bus {
	return &placement.Bus{Address: address, Node: node, Root: root, Bridges: bridges}
}

// linked connects every pair of GPUs with equal links.
func linked(gpus []placement.GPU, kind string, count int) []placement.GPU {
	for i := range gpus {
		for j := range gpus {
			if i != j {
				gpus[i].Links = append(gpus[i].Links, placement.Link{Peer: gpus[j].PCI, Kind: kind, Count: count})
			}
		}
	}
	return gpus
}

// two is the smallest realistic machine: a virtual machine with two CPUs.
func two() placement.Machine {
	m := shape{1, 1, 1, 2, 1, 8 * gib, 0, 0}.build()
	m.Topology.Virtual = true
	m.Topology.NICs = []placement.NIC{
		{Name: "docker0", Kind: placement.Virtual, State: "down"},
		{
			Name: "eth0", Kind: placement.Ethernet, Interface: "eth0", Up: true, Gbps: 10,
			Bus: bus("0000:00:03.0", 0, "pci0000:00"),
		},
	}
	return m
}

// laptop has two kinds of cores, and no NUMA node for its devices.
func laptop() placement.Machine {
	t := &placement.Topology{Nodes: []placement.NUMANode{{
		ID: 0, CPUs: must("0-15"), Memory: 31 * gib,
		Distances: []int{10},
	}}}
	for id := range 12 {
		t.CPUs = append(t.CPUs, placement.CPU{ID: id, Core: id / 2, L2: id / 2, Thread: id % 2})
	}
	for id := 12; id < 16; id++ {
		t.CPUs = append(t.CPUs, placement.CPU{ID: id, Core: id - 6, L2: 6, Kind: 1})
	}
	t.NICs = []placement.NIC{
		{
			Name: "wlp0s20f3", Kind: placement.Ethernet, Interface: "wlp0s20f3", Up: true,
			Bus: bus("0000:00:14.3", -1, "pci0000:00"),
		},
		{
			Name: "enp4s0", Kind: placement.Ethernet, Interface: "enp4s0", State: "down",
			Bus: bus("0000:04:00.0", -1, "pci0000:00", "0000:00:1c.0"),
		},
	}
	return placement.Machine{CPUs: must("0-15"), Topology: t, GPUs: []placement.GPU{{
		PCI: "0000:01:00.0", Vendor: placement.NVIDIA, Name: "NVIDIA GeForce RTX 4070 Laptop GPU", Memory: 8 * gib,
		Bus: bus("0000:01:00.0", -1, "pci0000:00", "0000:00:01.0"),
	}}}
}

// dgxA100 has eight GPUs in an order different from that of the NUMA nodes, and NICs two switches
// away.
func dgxA100() placement.Machine {
	m := shape{2, 4, 4, 4, 2, 251 * gib, 12, 32}.build()
	nodes := []int{3, 3, 1, 1, 7, 7, 5, 5}
	for i, pci := range []string{"07", "0f", "47", "4e", "87", "90", "b7", "bd"} {
		pair := i / 2
		address := "0000:" + pci + ":00.0"
		m.GPUs = append(m.GPUs, placement.GPU{
			Index: i, PCI: address, Vendor: placement.NVIDIA, UUID: fmt.Sprint("GPU-", i), Name: "NVIDIA A100-SXM4-80GB",
			Memory: 80 * gib,
			Bus: bus(address, nodes[i], fmt.Sprint("pci0000:", pair), fmt.Sprintf("0000:%d1:01.0", pair),
				fmt.Sprintf("0000:%d2:00.0", pair), fmt.Sprintf("0000:%d3:0%d.0", pair, i%2)),
		})
	}
	linked(m.GPUs, "nvlink", 12)
	for i, pci := range []string{"0c", "12", "4b", "54", "61", "61", "8d", "94", "ba", "cc", "e1", "e1"} {
		n := placement.NIC{
			Name: fmt.Sprint("mlx5_", i), Kind: placement.InfiniBand, Interface: fmt.Sprint("ib", i),
			Port: 1, Up: true, Gbps: 200, GID: -1,
		}
		if pair, near := map[int]int{0: 0, 1: 0, 2: 1, 3: 1, 6: 2, 7: 2, 8: 3, 9: 3}[i]; near {
			n.Bus = bus("0000:"+pci+":00.0", nodes[2*pair], fmt.Sprint("pci0000:", pair), fmt.Sprintf("0000:%d1:01.0", pair),
				fmt.Sprintf("0000:%d2:00.0", pair), fmt.Sprintf("0000:%d4:0%d.0", pair, i%2))
		} else {
			n.Kind, n.Bus = placement.RoCE, bus(fmt.Sprintf("0000:%s:00.%d", pci, i%2), i/6*4, "pci0000:"+pci,
				"0000:"+pci+":01.0")
		}
		m.Topology.NICs = append(m.Topology.NICs, n)
	}
	return m
}

// pairs is a server with two GPUs below each PCIe switch and no links.
func pairs() placement.Machine {
	m := shape{2, 1, 1, 32, 2, 503 * gib, 0, 21}.build()
	roots := []string{"pci0000:15", "pci0000:30", "pci0000:ae", "pci0000:c9"}
	for i, pci := range []string{"17", "18", "31", "32", "b1", "b2", "ca", "cb"} {
		address := "0000:" + pci + ":00.0"
		m.GPUs = append(m.GPUs, placement.GPU{
			Index: i, PCI: address, Vendor: placement.NVIDIA, Name: "NVIDIA L40S", Memory: 45 * gib, Used: i == 3,
			Bus: bus(address, i/4, roots[i/2], roots[i/2][3:]+":01.0", fmt.Sprintf("0000:%s:0%d.0", "16", i%2)),
		})
	}
	m.Topology.NICs = []placement.NIC{
		{
			Name: "mlx5_0", Kind: placement.RoCE, Interface: "ens1", Port: 1, Up: true, Gbps: 100,
			Bus: bus("0000:19:00.0", 0, roots[0], "0000:15:01.0", "0000:16:02.0"),
		},
		{
			Name: "mlx5_1", Kind: placement.RoCE, Interface: "ens2", Port: 1, State: "down", Gbps: 100,
			Bus: bus("0000:b3:00.0", 1, roots[2], "0000:ae:01.0", "0000:16:02.0"),
		},
	}
	return m
}

// grace has a separate NUMA node for each GPU's memory, and gaps in the node numbers.
func grace() placement.Machine {
	m := shape{2, 1, 1, 72, 1, 480 * gib, 0, 40}.build()
	t := m.Topology
	for _, id := range []int{2, 10, 18, 26} {
		t.Nodes = append(t.Nodes, placement.NUMANode{ID: id, Memory: 186 * gib, Distances: []int{80, 80, 80, 80, 80, 80}})
	}
	for i := range 2 {
		t.Nodes[i].Distances = append(t.Nodes[i].Distances, 80, 80, 80, 80)
	}
	for i, pci := range []string{"0008", "0009", "0018", "0019"} {
		m.GPUs = append(m.GPUs, placement.GPU{
			Index: i, PCI: pci + ":01:00.0", Vendor: placement.NVIDIA, Name: "NVIDIA GB200", Memory: 186 * gib,
			Bus: bus(pci+":01:00.0", i/2, "pci"+pci+":00", pci+":00:00.0"),
		})
	}
	for i := range m.GPUs {
		m.GPUs[i].MemoryNode = []int{2, 10, 18, 26}[i]
		for j := range m.GPUs {
			if i != j {
				m.GPUs[i].Peers = append(m.GPUs[i].Peers, placement.Peer{PCI: m.GPUs[j].PCI, Access: placement.P2POK})
			}
		}
	}
	linked(m.GPUs, "nvlink", 18)
	return m
}

// container may use only part of a server. Some CPUs are isolated or offline.
func container() placement.Machine {
	m := shape{2, 1, 2, 4, 2, 64 * gib, 0, 20}.build()
	t := m.Topology
	t.CPUs = t.CPUs[:31] // CPU 31 is offline
	t.Offline, t.Isolated, t.Memories = must("31"), must("6-7,22-23"), must("0")
	m.CPUs, m.Quota, m.MemoryLimit = must("0-3,16-18"), 2.5, 4*gib
	m.Notes = []string{"cpu.max of /sys/fs/cgroup says 2.5 CPUs"}
	return m
}

// strange has few facts, and texts with terminal control characters.
func strange() placement.Machine {
	const evil = "\x1b[31mx\x1b]0;t\x07\n\u009b2J\u202e"
	return placement.Machine{
		Notes: []string{"note " + evil},
		GPUs: []placement.GPU{{
			PCI: evil, Vendor: evil, Name: evil + "<&\">",
			Links: []placement.Link{{Peer: evil, Kind: evil, Count: 1}}, Peers: []placement.Peer{{PCI: evil, Access: evil}},
			MIG: []string{evil},
		}},
		Topology: &placement.Topology{
			CPUs: []placement.CPU{
				{ID: 0, Package: -1, Node: 0, Die: -1, L3: -1, L2: -1, Core: -1},
				{ID: 4, Package: -1, Node: 0, Die: -1, L3: -1, L2: -1, Core: -1},
			},
			NICs: []placement.NIC{
				{
					Name: evil, Kind: evil, Interface: evil + "i", State: evil,
					Bus: &placement.Bus{Address: evil, Root: evil, Bridges: []string{evil, "b"}, Node: 7},
				},
				{Name: evil + "v", Kind: placement.Virtual},
			},
		},
	}
}

// machines are the machines of the golden files.
var machines = map[string]func() placement.Machine{
	"two": two, "laptop": laptop, "dgx-a100": dgxA100, "pairs": pairs, "grace": grace, "container": container,
	"strange": strange,
	"unknown": func() placement.Machine { return placement.Machine{} },
}

// anyMachine returns a machine of any shape.
func anyMachine(r *rand.Rand) placement.Machine {
	s := shape{
		1 + r.IntN(4), 1 + r.IntN(4), 1 + r.IntN(9), 1 + r.IntN(9), 1 + r.IntN(2), r.Int64N(1 << 44),
		11 + r.IntN(9), 20 + r.IntN(40),
	}
	m := s.build()
	t := m.Topology
	for i := range r.IntN(9) {
		address := fmt.Sprintf("0000:%02x:00.0", i)
		m.GPUs = append(m.GPUs, placement.GPU{
			Index: i, PCI: address, Vendor: placement.AMD,
			Bus: bus(address, r.IntN(len(t.Nodes)+1)-1, fmt.Sprint("pci0000:", r.IntN(4)), someBridges(r)...),
		})
	}
	for i := range r.IntN(20) {
		address := fmt.Sprintf("0000:%02x:01.0", i)
		t.NICs = append(t.NICs, placement.NIC{
			Name: fmt.Sprint("nic", i), Kind: placement.RoCE, Gbps: float64(r.IntN(800)),
			Up: r.IntN(2) == 0, Bus: bus(address, r.IntN(len(t.Nodes)+1)-1, fmt.Sprint("pci0000:", r.IntN(4)),
				someBridges(r)...),
		})
	}
	for id := range t.CPUs {
		if r.IntN(3) == 0 {
			t.CPUs[id].L3 = -1
		}
	}
	if len(t.CPUs) > 1 && r.IntN(2) == 0 {
		m.CPUs = must(fmt.Sprint(r.IntN(len(t.CPUs))))
	}
	return m
}

func someBridges(r *rand.Rand) []string {
	var all []string
	for range r.IntN(5) {
		all = append(all, fmt.Sprintf("0000:f%d:00.0", r.IntN(3)))
	}
	return all
}
