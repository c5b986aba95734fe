package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file builds the example machines, from public descriptions of them, and
// knows nothing of how a machine is read. `go test ./placement -run
// TestExamplesAreBuilt -update` writes the files.

// chips describes the processors of a machine.
type chips struct {
	packages, nodes, cores int // nodes and cores of a package
	l3                     int // cores that share an L3 cache; 0: all of a package
	threads                int // of a core
	// id numbers thread t of core c in package p; nil is Linux's usual order, the
	// first threads of all cores, then the second ones.
	id func(p, c, t int) int
	// memory of a node in GiB, distance to nodes of the same package and of others.
	memory, near, far int
}

// machine makes a machine without devices.
func (c chips) machine() Machine {
	all := c.packages * c.cores
	id := c.id
	if id == nil {
		id = func(p, core, t int) int { return t*all + p*c.cores + core }
	}
	if c.l3 == 0 {
		c.l3 = c.cores
	}
	t := &Topology{CPUs: make([]CPU, all*c.threads)}
	nodes := make([]string, c.packages*c.nodes)
	for p := range c.packages {
		for core := range c.cores {
			for thread := range c.threads {
				number, node := id(p, core, thread), p*c.nodes+core*c.nodes/c.cores
				index := p*c.cores + core
				t.CPUs[number] = CPU{
					ID: number, Package: p, Node: node, Die: p, L3: index / c.l3, L2: index, Core: index,
					Thread: thread,
				}
				nodes[node] += "," + strconv.Itoa(number)
			}
		}
	}
	for n, list := range nodes {
		distances := make([]int, len(nodes))
		for m := range nodes {
			switch {
			case m == n:
				distances[m] = 10
			case m/c.nodes == n/c.nodes:
				distances[m] = c.near
			default:
				distances[m] = c.far
			}
		}
		t.Nodes = append(t.Nodes, NUMANode{ID: n, CPUs: set(list[1:]), Memory: int64(c.memory) << 30, Distances: distances})
	}
	return Machine{CPUs: set(fmt.Sprintf("0-%d", len(t.CPUs)-1)), Topology: t}
}

func set(list string) CPUSet {
	s, err := ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}

// hang makes the place of a device of its node and its path, "pci0000:15 15:01.0
// 16:00.0 18:00.0"; addresses without a domain are in the host bridge's.
func (m *Machine) hang(node int, path string) *Bus {
	words := strings.Fields(path)
	domain := words[0][len("pci"):strings.Index(words[0], ":")]
	for i, word := range words[1:] {
		if strings.Count(word, ":") == 1 {
			words[i+1] = domain + ":" + word
		}
	}
	last := len(words) - 1
	bus := &Bus{Root: words[0], Address: words[last], Node: node, Near: m.Topology.Node(node).CPUs}
	if last > 1 {
		bus.Bridges = words[1:last]
	}
	return bus
}

// gpu adds a GPU.
func (m *Machine) gpu(vendor Vendor, name string, gib, node int, path string) {
	bus := m.hang(node, path)
	m.GPUs = append(m.GPUs, GPU{
		Index: len(m.GPUs), PCI: bus.Address, Vendor: vendor, Name: name,
		Memory: int64(gib) << 30, Bus: bus,
	})
}

// pcie gives all GPUs, and NICs of a kind, links with sixteen lanes.
func (m *Machine) pcie(gtps float64, nics ...NICKind) {
	for i := range m.GPUs {
		m.GPUs[i].Bus.Link = &PCIeLink{GTps: gtps, Width: 16}
	}
	for i := range m.Topology.NICs {
		if slices.Contains(nics, m.Topology.NICs[i].Kind) {
			m.Topology.NICs[i].Bus.Link = &PCIeLink{GTps: gtps, Width: 16}
		}
	}
}

// mesh connects every GPU with every other one.
func (m *Machine) mesh(kind string, count int) {
	for i := range m.GPUs {
		for j := range m.GPUs {
			if i != j {
				m.GPUs[i].Links = append(m.GPUs[i].Links, Link{Peer: m.GPUs[j].PCI, Kind: kind, Count: count})
			}
		}
	}
}

// nic adds a port that is up; RoCE ports have their address where most have it.
func (m *Machine) nic(kind NICKind, name, netdev string, gbps float64, node int, path string) *NIC {
	n := NIC{Name: name, Kind: kind, Interface: netdev, Port: 1, Up: true, Gbps: gbps, GID: -1, Bus: m.hang(node, path)}
	switch kind {
	case Ethernet:
		n.Port, n.Interface = 0, name
	case RoCE:
		n.GID = 3
	}
	m.Topology.NICs = append(m.Topology.NICs, n)
	return &m.Topology.NICs[len(m.Topology.NICs)-1]
}

// bus spells a bus number.
func bus(n int) string { return fmt.Sprintf("%02x", n) }

// cascade makes the paths of an interface on bus n and of a GPU three buses
// further, as on machines in which a second switch is above each GPU.
func cascade(n int, port string) (nic, gpu string) {
	root := "pci0000:" + bus(n-3) + " " + bus(n-3) + ":" + port + " " + bus(n-2) + ":00.0 " + bus(n-1)
	return root + ":00.0 " + bus(n) + ":00.0", root + ":01.0 " + bus(n+1) + ":00.0 " + bus(n+2) + ":00.0 " + bus(n+3) +
		":00.0"
}

// built are the examples with one sentence on each.
var built = map[string]struct {
	about string
	make  func() Machine
}{
	"dgx-a100": {
		"NVIDIA DGX A100: 2 EPYC 7742 in 8 NUMA nodes, 8 GPUs on NVSwitch, 2 InfiniBand ports near each pair of GPUs",
		dgxA100,
	},
	"dgx-h100":      {"NVIDIA DGX H100: 2 Xeon 8480C, 8 GPUs on NVSwitch, an InfiniBand port near each GPU", dgxH100},
	"pcie-8gpu":     {"server with 8 L40S on PCIe switches, 2 on each", pcie8GPU},
	"cloud-8gpu-vm": {"virtual machine with 8 L40S that shows no PCIe switches, as a g6e.48xlarge", cloud8GPU},
	"hybrid":        {"laptop with 6 fast, 8 efficient and 2 low-power cores", hybrid},
	"mi300x": {
		"2 EPYC of 96 cores, 8 AMD MI300X in one XGMI hive, a RoCE port below the switch of each GPU", mi300X,
	},
	"mi300x-interleaved": {
		"8 AMD MI300X with 2 Xeon of 56 cores, whose firmware numbers CPUs alternately", mi300XInterleaved,
	},
	"p5":               {"AWS p5.48xlarge: 8 H100 on NVSwitch, 4 EFA devices below the switch of each GPU", p5},
	"two-socket-intel": {"2 Xeon of 32 cores without GPUs", twoSocketIntel},
	"two-socket-amd":   {"2 EPYC of 64 cores without GPUs, 8 cores to an L3 cache", twoSocketAMD},
	"gb200-tray":       {"compute tray of a GB200 NVL72: 2 Grace, 4 GPUs whose memories are NUMA nodes", gb200Tray},
	"azure-ndh100": {
		"Azure ND H100 v5: a virtual machine with 8 H100, each in a PCI domain of its own", azureNDH100,
	},
	"container": {"container that was given 8 CPUs and a memory of a DGX H100", container},
	"offline":   {"2 sockets of 8 cores, some of whose CPUs are switched off or isolated", offline},
	"one": {"machine with one CPU", func() Machine {
		return chips{packages: 1, nodes: 1, cores: 1, threads: 1, memory: 4}.machine()
	}},
}

func dgxA100() Machine {
	m := chips{packages: 2, nodes: 4, cores: 64, l3: 4, threads: 2, memory: 128, near: 12, far: 32}.machine()
	const name = "NVIDIA A100-SXM4-80GB"
	nic := 0
	hdr := func(node int, path string) {
		if nic == 4 {
			nic += 2 // storage
		}
		at := m.hang(node, path)
		number, _ := strconv.ParseInt(at.Address[5:7], 16, 0)
		m.nic(InfiniBand, fmt.Sprint("mlx5_", nic), fmt.Sprintf("ibp%ds0", number), 200, node, path)
		nic++
	}
	storage := func(first, node int, root, slot string) {
		for f := range 2 {
			m.nic(RoCE, fmt.Sprint("mlx5_", first+f), fmt.Sprintf("enp%ds0f%dnp%[2]d", first*24, f), 200, node,
				fmt.Sprintf("%s %s:00.%d", root, slot, f))
		}
	}
	for _, q := range []struct{ node, root, gpu1, nic1, gpu2, nic2 int }{
		{3, 0x00, 0x07, 0x0c, 0x0f, 0x12},
		{1, 0x40, 0x47, 0x4b, 0x4e, 0x54},
		{7, 0x80, 0x87, 0x8d, 0x90, 0x94},
		{5, 0xb0, 0xb7, 0xba, 0xbd, 0xcc},
	} {
		top := fmt.Sprintf("pci0000:%02x %02[1]x:01.1 %02x:00.0 %02x", q.root, q.root+1, q.root+2)
		first := fmt.Sprintf("%s:00.0 %02x:00.0 %02x", top, q.gpu1-4, q.gpu1-3)
		second := fmt.Sprintf("%s:08.0 %02x:00.0 %02x", top, q.gpu2-2, q.gpu2-1)
		m.gpu(NVIDIA, name, 80, q.node, fmt.Sprintf("%s:00.0 %02x:00.0 %02x:00.0 %02x:00.0", first, q.gpu1-2, q.gpu1-1,
			q.gpu1))
		m.gpu(NVIDIA, name, 80, q.node, fmt.Sprintf("%s:00.0 %02x:00.0", second, q.gpu2))
		hdr(q.node, fmt.Sprintf("%s:10.0 %02x:00.0", first, q.nic1))
		hdr(q.node, fmt.Sprintf("%s:10.0 %02x:00.0 %02x:00.0 %02x:00.0", second, q.nic2-2, q.nic2-1, q.nic2))
		if nic == 4 {
			storage(4, 0, "pci0000:60 60:01.1", "61")
		}
	}
	storage(10, 4, "pci0000:e0 e0:01.1", "e1")
	m.mesh("nvlink", 12)
	m.pcie(16, InfiniBand, RoCE) // ConnectX-6
	return m
}

func dgxH100() Machine {
	m := chips{packages: 2, nodes: 1, cores: 56, threads: 2, memory: 1024, far: 21}.machine()
	for i, q := range []struct{ n, nic int }{
		{0x18, 0},
		{0x40, 3},
		{0x4f, 4},
		{0x5e, 5},
		{0x9a, 6},
		{0xc0, 9},
		{0xce, 10},
		{0xdc, 11},
	} {
		port, gpu := cascade(q.n, "01.0")
		m.gpu(NVIDIA, "NVIDIA H100 80GB HBM3", 80, i/4, gpu)
		m.nic(InfiniBand, fmt.Sprint("mlx5_", q.nic), fmt.Sprintf("ibp%ds0", q.n), 400, i/4, port)
		if i%4 == 0 { // the card for storage, one of whose ports has no cable
			root := []string{"pci0000:26 26:01.0 27:00.0 28:00.0 29:00.", "pci0000:a7 a7:01.0 a8:00.0 a9:00.0 aa:00."}[i/4]
			netdev := []string{"enp41s0f", "enp170s0f"}[i/4]
			m.nic(RoCE, fmt.Sprint("mlx5_", q.nic+1), netdev+"0np0", 400, i/4, root+"0")
			spare := m.nic(RoCE, fmt.Sprint("mlx5_", q.nic+2), netdev+"1np1", 0, i/4, root+"1")
			spare.Up, spare.State, spare.GID = false, "Polling", -1
		}
	}
	m.mesh("nvlink", 18)
	m.pcie(32, InfiniBand, RoCE) // ConnectX-7
	return m
}

func pcie8GPU() Machine {
	m := chips{packages: 2, nodes: 1, cores: 32, threads: 2, memory: 512, far: 21}.machine()
	for i, n := range []int{0x17, 0x31, 0xb1, 0xca} {
		root := "pci0000:" + bus(n-3) + " " + bus(n-3) + ":01.0 " + bus(n-2) + ":00.0 " + bus(n-1)
		m.gpu(NVIDIA, "NVIDIA L40S", 48, i/2, root+":00.0 "+bus(n)+":00.0")
		m.gpu(NVIDIA, "NVIDIA L40S", 48, i/2, root+":01.0 "+bus(n+1)+":00.0")
		if i%2 == 0 {
			m.nic(RoCE, fmt.Sprint("mlx5_", i/2), fmt.Sprintf("ens%dnp0", i+1), 200, i/2, root+":02.0 "+bus(n+2)+":00.0")
		}
	}
	m.pcie(16) // of an L40S
	return m
}

func cloud8GPU() Machine {
	m := chips{packages: 2, nodes: 1, cores: 48, threads: 2, l3: 8, memory: 768, far: 32}.machine()
	for i, n := range []int{0x31, 0x33, 0x35, 0x37, 0xb1, 0xb3, 0xb5, 0xb7} {
		m.gpu(NVIDIA, "NVIDIA L40S", 48, i/4, "pci0000:"+bus(n)+" "+bus(n)+":00.0")
	}
	m.nic(Ethernet, "ens5", "", 0, 0, "pci0000:27 27:00.0")
	m.Topology.Virtual = true
	return m
}

// hybrid has two threads on its fast cores only, four of its efficient ones share
// an L2 cache, and the low-power ones are on another die, without an L3 cache.
func hybrid() Machine {
	m := chips{packages: 1, nodes: 1, cores: 22, threads: 1, memory: 32}.machine()
	for i := range m.Topology.CPUs {
		c := &m.Topology.CPUs[i]
		switch {
		case i < 12:
			c.Core, c.Thread = i/2, i%2
			c.L2 = c.Core
		case i < 20:
			c.Core, c.L2, c.Kind = i-6, 6+(i-12)/4, 1
		default:
			c.Core, c.L2, c.L3, c.Kind = i-6, 8, -1, 1
		}
	}
	m.nic(Ethernet, "wlp0s20f3", "", 0, 0, "pci0000:00 00:14.3")
	return m
}

func mi300X() Machine {
	m := chips{packages: 2, nodes: 1, cores: 96, threads: 2, l3: 8, memory: 1152, far: 32}.machine()
	m.addMI300X()
	return m
}

func mi300XInterleaved() Machine {
	m := chips{
		packages: 2, nodes: 1, cores: 56, threads: 2, memory: 1024, far: 21,
		id: func(p, core, t int) int { return t*112 + core*2 + p },
	}.machine()
	m.addMI300X()
	return m
}

func (m *Machine) addMI300X() {
	for i, n := range []int{0x18, 0x3a, 0x4b, 0x5c, 0x9a, 0xba, 0xca, 0xda} {
		port, gpu := cascade(n, "01.1")
		m.gpu(AMD, "AMD Instinct MI300X OAM", 192, i/4, gpu)
		m.nic(RoCE, fmt.Sprint("bnxt_re", i), fmt.Sprintf("enp%ds0np0", n), 400, i/4, port)
	}
	m.mesh("xgmi", 1)
	m.pcie(32)
}

func p5() Machine {
	m := chips{packages: 2, nodes: 1, cores: 48, threads: 2, l3: 8, memory: 1024, far: 32}.machine()
	for i := range 8 {
		n := 0x44 + 17*i
		root := "pci0000:" + bus(n) + " " + bus(n) + ":00.0 " + bus(n+1) + ":00.0 " + bus(n+2)
		m.gpu(NVIDIA, "NVIDIA H100 80GB HBM3", 80, i/4, root+":04.0 "+bus(n+15)+":00.0")
		for k := range 4 {
			m.nic(EFA, fmt.Sprintf("rdmap%ds0", n+11+k), "", 100, i/4, fmt.Sprintf("%s:0%d.0 %s:00.0", root, k, bus(n+11+k)))
		}
	}
	m.mesh("nvlink", 18)
	// Sorted by name, the interface comes first.
	nics := m.Topology.NICs
	m.Topology.NICs = nil
	m.nic(Ethernet, "ens32", "", 0, 0, "pci0000:20 20:01.0 21:00.0")
	m.Topology.NICs = append(m.Topology.NICs, nics...)
	return m
}

func twoSocketIntel() Machine {
	m := chips{packages: 2, nodes: 1, cores: 32, threads: 2, memory: 256, far: 21}.machine()
	m.nic(Ethernet, "eno1", "", 1, 0, "pci0000:00 00:1c.4 04:00.0")
	m.nic(Ethernet, "ens1f0", "", 25, 0, "pci0000:30 30:02.0 31:00.0")
	return m
}

func twoSocketAMD() Machine {
	m := chips{packages: 2, nodes: 1, cores: 64, threads: 2, l3: 8, memory: 512, far: 32}.machine()
	m.nic(RoCE, "mlx5_0", "enp65s0f0", 100, 0, "pci0000:40 40:01.1 41:00.0")
	return m
}

func gb200Tray() Machine {
	m := chips{packages: 2, nodes: 1, cores: 72, threads: 1, memory: 480, far: 40}.machine()
	t := m.Topology
	for i := range 2 {
		t.Nodes[i].Distances = []int{10, 40, 80, 80, 120, 120}
	}
	t.Nodes[1].Distances = []int{40, 10, 120, 120, 80, 80}
	for i, id := range []int{2, 10, 18, 26} {
		distances := []int{80, 120, 160, 160, 160, 160}
		if i >= 2 {
			distances = []int{120, 80, 160, 160, 160, 160}
		}
		distances[2+i] = 10
		t.Nodes = append(t.Nodes, NUMANode{ID: id, Memory: 185 << 30, Distances: distances})
	}
	for i, domain := range []string{"0008", "0009", "0018", "0019"} {
		m.gpu(NVIDIA, "NVIDIA GB200", 185, i/2, "pci"+domain+":00 00:00.0 01:00.0")
	}
	for i, q := range []struct {
		domain   string
		function int
	}{{"0000", 0}, {"0002", 0}, {"0006", 0}, {"0006", 1}, {"0010", 0}, {"0012", 0}, {"0016", 0}, {"0016", 1}} {
		path := fmt.Sprintf("pci%s:00 00:00.0 01:00.0 02:00.0 03:00.%d", q.domain, q.function)
		if i%4 < 2 {
			m.nic(InfiniBand, fmt.Sprint("mlx5_", i), fmt.Sprint("ibP", i, "p3s0"), 400, i/4, path)
		} else {
			m.nic(RoCE, fmt.Sprint("mlx5_", i), fmt.Sprint("enP", i, "p3s0"), 200, i/4, path)
		}
	}
	m.mesh("nvlink", 18)
	return m
}

func azureNDH100() Machine {
	m := chips{packages: 2, nodes: 1, cores: 48, threads: 1, memory: 950, far: 21}.machine()
	m.nic(RoCE, "mlx5_an0", "enP257s1", 100, 0, "pcid2c4:00 00:02.0").GID = -1
	for i, domain := range []string{"0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"} {
		m.gpu(NVIDIA, "NVIDIA H100 80GB HBM3", 80, i/4, "pci"+domain+":00 00:00.0")
		m.nic(InfiniBand, fmt.Sprint("mlx5_ib", i), fmt.Sprint("ib", i), 400, i/4, fmt.Sprintf("pci010%d:00 00:00.0", i+1))
	}
	m.mesh("nvlink", 18)
	m.Topology.Virtual = true
	return m
}

func container() Machine {
	m := dgxH100()
	m.CPUs, m.Topology.Memories = set("4-11"), set("0")
	m.Quota, m.MemoryLimit = 6, 64<<30
	return m
}

// offline has core 3 off, and hardware threads of others. What is left is counted
// without holes.
func offline() Machine {
	m := chips{packages: 2, nodes: 1, cores: 8, threads: 2, memory: 64, far: 20}.machine()
	t := m.Topology
	t.Offline, t.Isolated = set("3,12,19-23"), set("14-15,30-31")
	var left []CPU
	for _, c := range t.CPUs {
		if t.Offline.Has(c.ID) {
			continue
		}
		switch {
		case c.ID == 28: // it begins its core now that 12 is off, so that comes last
			c.Core, c.L2, c.Thread = 14, 14, 0
		case c.Core > 12:
			c.Core, c.L2 = c.Core-2, c.L2-2
		case c.Core > 3:
			c.Core, c.L2 = c.Core-1, c.L2-1
		}
		left = append(left, c)
	}
	t.CPUs = left
	t.Nodes[0].CPUs, t.Nodes[1].CPUs = set("0-2,4-7,16-18"), set("8-11,13-15,24-31")
	m.CPUs = set("0-2,4-11,13,16-18,24-29")
	return m
}
