package sysfs

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// nicsOf reads the interfaces of a machine with one CPU and the given devices.
func nicsOf(t *testing.T, devices func(tree fakeTree)) []placement.NIC {
	t.Helper()
	m := example(t, "one")
	tree := fakeTree{MapFS: treeOf(m)}
	devices(tree)
	return ReadFS(tree.MapFS, m.CPUs, everything).Topology.NICs
}

func virtual(t fakeTree, name, kind, state string) {
	dir := "sys/devices/virtual/net/" + name
	t.Link(netDir+"/"+name, dir)
	t.Put(dir+"/type", kind)
	t.Put(dir+"/operstate", state)
}

func TestVirtualInterfaces(t *testing.T) {
	nics := nicsOf(t, func(tree fakeTree) {
		virtual(tree, "lo", "772", "unknown")
		virtual(tree, "docker0", "1", "up")
		virtual(tree, "vlan7", "1", "up")
		tree.Put("sys/devices/virtual/net/vlan7/master/x", "") // a port of docker0
		virtual(tree, "cali1f2e", "1", "up")
		virtual(tree, "tunl0", "768", "down")
		virtual(tree, "wg0", "65534", "unknown")
		virtual(tree, "bond0", "1", "up")
		tree.Put("sys/devices/virtual/net/bond0/speed", 50000)
		tree.Put(netDir+"/bonding_masters", "bond0")
		tree.NIC(placement.NIC{
			Name: "eno1", Interface: "eno1", Kind: placement.Ethernet,
			Bus: &placement.Bus{Root: "pci0000:00", Address: "0000:00:1f.6"},
		})
	})
	assert.Equal(t, []placement.NIC{
		{Name: "eno1", Kind: placement.Ethernet, Interface: "eno1", State: "down", GID: -1, Bus: &placement.Bus{
			Root: "pci0000:00", Address: "0000:00:1f.6", Near: cpus(t, "0"),
		}},
		{Name: "bond0", Kind: placement.Virtual, Interface: "bond0", Up: true, Gbps: 50, GID: -1},
		{Name: "docker0", Kind: placement.Virtual, Interface: "docker0", Up: true, GID: -1},
		{Name: "wg0", Kind: placement.Virtual, Interface: "wg0", Up: true, GID: -1},
	}, nics)
}

// rdmaPort writes the files of a port of an RDMA device.
func rdmaPort(t fakeTree, dir, layer, state, physical, rate string) {
	t.Put(dir+"/link_layer", layer)
	t.Put(dir+"/state", state)
	t.Put(dir+"/phys_state", physical)
	t.Put(dir+"/rate", rate)
}

// Ports of a software device are read like others.
func TestSoftRoCE(t *testing.T) {
	const device = "sys/devices/virtual/infiniband/rxe0"
	tree := fakeTree{MapFS: fstest.MapFS{}}
	assert.Empty(t, RDMAFS(tree.MapFS))
	tree.Link(rdmaDir+"/rxe0", device)
	tree.Put(device+"/parent", "eth7")
	rdmaPort(tree, device+"/ports/1", "Ethernet", "4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)")
	assert.Equal(t,
		[]placement.NIC{{Name: "rxe0", Kind: placement.Virtual, Interface: "eth7", Port: 1, Up: true, Gbps: 400, GID: -1}},
		RDMAFS(tree.MapFS))

	// A container sees all devices of its host in /sys.
	tree.Link(rdmaDir+"/mlx5_0", "sys/devices/virtual/infiniband/mlx5_0")
	rdmaPort(tree, "sys/devices/virtual/infiniband/mlx5_0/ports/1", "InfiniBand", "4: ACTIVE", "5: LinkUp", "400 Gb/sec")
	tree.Put("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
	tree.Put("sys/class/infiniband_verbs/uverbs7/ibdev", "rxe0")
	assert.Len(t, RDMAFS(tree.MapFS), 2, "no device file is known")
	tree.Put("dev/infiniband/uverbs7", "")
	ports := RDMAFS(tree.MapFS)
	require.Len(t, ports, 1)
	assert.Equal(t, "rxe0", ports[0].Name)
}

func TestRDMADevices(t *testing.T) {
	const dir = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	bus := &placement.Bus{
		Root: "pci0000:00", Bridges: []string{"0000:00:01.0"}, Address: "0000:01:00.0",
		Near: cpus(t, "0"),
	}
	nics := nicsOf(t, func(tree fakeTree) {
		tree.Device(bus, "15B3", "20700")
		// One device with a port of each kind. The second netdev belongs to the first port.
		mlx := dir + "/infiniband/mlx4_0"
		tree.Link(rdmaDir+"/mlx4_0", mlx)
		tree.Link(mlx+"/device", dir)
		rdmaPort(tree, mlx+"/ports/1", "InfiniBand", "2: INIT", "5: LinkUp", "56 Gb/sec (4X FDR)")
		rdmaPort(tree, mlx+"/ports/2", "Ethernet", "4: ACTIVE", "5: LinkUp", "2.5 Gb/sec (1X SDR)")
		tree.Put(mlx+"/ports/junk", "")
		for i, name := range []string{"ens1", "ib0", "ib0.8001"} {
			tree.Link(netDir+"/"+name, dir+"/net/"+name)
			tree.Put(dir+"/net/"+name+"/dev_port", []int{1, 0, 0}[i])
			tree.Put(dir+"/net/"+name+"/type", []int{arpEthernet, arpInfiniBand, arpInfiniBand}[i])
		}
		rxe := "sys/devices/virtual/infiniband/rxe0"
		tree.Link(rdmaDir+"/rxe0", rxe)
		tree.Put(rxe+"/parent", "eth7")
		rdmaPort(tree, rxe+"/ports/1", "Ethernet", "1: DOWN", "3: Disabled", "what")
	})
	assert.Equal(t, []placement.NIC{
		{Name: "ib0.8001", Kind: placement.InfiniBand, Interface: "ib0.8001", GID: -1, Bus: bus},
		{Name: "mlx4_0", Kind: placement.InfiniBand, Interface: "ib0", Port: 1, State: "INIT", GID: -1, Bus: bus},
		{Name: "mlx4_0", Kind: placement.RoCE, Interface: "ens1", Port: 2, Up: true, Gbps: 2.5, GID: -1, Bus: bus},
		{Name: "rxe0", Kind: placement.Virtual, Interface: "eth7", Port: 1, State: "Disabled", GID: -1},
	}, nics)
}

func TestGID(t *testing.T) {
	const (
		v4    = "0000:0000:0000:0000:0000:ffff:0a00:0001"
		v6    = "2001:0db8:0000:0000:0000:0000:0000:0001"
		link  = "fe80:0000:0000:0000:0011:22ff:fe33:4455"
		empty = "0000:0000:0000:0000:0000:0000:0000:0000"
	)
	tests := map[string]struct {
		gids, types []string
		want        int
	}{
		"as most have it": {
			[]string{link, link, v4, v4}, []string{"IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2"}, 3,
		},
		"after a hole": {
			[]string{link, empty, empty, empty, empty, v4}, []string{"RoCE v2", "", "", "", "", "RoCE v2"}, 5,
		},
		"IPv4 rather than IPv6":       {[]string{v6, v6, v4}, []string{"RoCE v2", "RoCE v2", "RoCE v2"}, 2},
		"the first of IPv6":           {[]string{link, v6, v6}, []string{"RoCE v2", "RoCE v2", "RoCE v2"}, 1},
		"only for the link":           {[]string{link, link}, []string{"IB/RoCE v1", "RoCE v2"}, -1},
		"only version 1":              {[]string{v4, v6}, []string{"IB/RoCE v1", "IB/RoCE v1"}, -1},
		"another namespace's address": {[]string{v4}, nil, -1},
		"no table":                    {nil, nil, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tree := fakeTree{MapFS: fstest.MapFS{}}
			for i, gid := range test.gids {
				tree.Put("p/gids/"+itoa(i), gid)
			}
			for i, kind := range test.types {
				tree.Put("p/gid_attrs/types/"+itoa(i), kind)
			}
			index, isIPv6 := (&reader{root: tree.MapFS}).gid("p")
			assert.Equal(t, test.want, index)
			assert.Equal(t, index >= 0 && !strings.HasPrefix(test.gids[index], "0000:0000:0000:0000:0000:ffff:"), isIPv6)
		})
	}
}

func TestNaturalOrder(t *testing.T) {
	ordered := []string{
		"bnxt_re0", "eth0", "eth0.5", "eth1", "eth01x", "mlx5_2", "mlx5_10", "mlx5_10a", "rdmap79s0",
		"rdmap113s0",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			switch c := natural(a, b); {
			case i < j:
				assert.Negative(t, c, "%s before %s", a, b)
			case i > j:
				assert.Positive(t, c, "%s after %s", a, b)
			default:
				assert.Zero(t, c, a)
			}
		}
	}
}

func TestBusPath(t *testing.T) {
	tests := map[string]struct {
		root, address string
		bridges       []string
	}{
		"../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0": {
			"pci0000:15", "0000:16:00.0", []string{"0000:15:01.0"},
		},
		"../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0": {
			"pci0000:00", "0000:00:03.0", nil,
		},
		"../../devices/LNXSYSTM:00/VMBUS:00/f8b3/pci0001:00/0001:00:00.0/net/ib0": {
			"pci0001:00", "0001:00:00.0", nil,
		},
		"../../devices/pci0000:e0/pci10000:e1/10000:e1:01.0/10000:e2:00.0/net/eth9": {
			"pci10000:e1", "10000:e2:00.0", []string{"10000:e1:01.0"},
		},
		"../../devices/platform/40000000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/net/e0": {
			"pci0000:00", "0000:01:00.0", []string{"0000:00:00.0"},
		},
		"../../devices/virtual/net/docker0": {},
		"../../devices/pci0000:00/net/eth0": {},
		"0000:16:00.0":                      {},
		"":                                  {},
	}
	for target, want := range tests {
		root, bridges, address := busPath(target)
		assert.Equal(t, want.root, root, target)
		assert.Equal(t, want.bridges, bridges, target)
		assert.Equal(t, want.address, address, target)
	}
}

// FuzzTopology writes arbitrary text to the files of a machine, and checks that the result is
// consistent.
func FuzzTopology(f *testing.F) {
	m, err := placement.Example("offline")
	if err != nil {
		f.Fatal(err)
	}
	bus := &placement.Bus{
		Root: "pci0000:40", Bridges: []string{"0000:40:01.0"}, Address: "0000:41:00.0",
		Near: m.Topology.Nodes[1].CPUs,
	}
	m.GPUs = []placement.GPU{{PCI: "0000:41:00.0", Vendor: placement.AMD, Bus: bus, Links: []placement.Link{{Peer: "x"}}}}
	m.Topology.NICs = []placement.NIC{{
		Name: "mlx5_0", Kind: placement.RoCE, Interface: "eno1", Port: 1, Up: true,
		Gbps: 100, GID: 3, Bus: bus,
	}}
	tree := treeOf(m)
	tree["proc/meminfo"] = &fstest.MapFile{Data: []byte("MemTotal: 5 kB\n")}
	var names []string
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	f.Add(uint16(0), "0-3", uint16(1), "-1")
	f.Add(uint16(10), "0-65535", uint16(700), "")
	f.Add(uint16(20), "3", uint16(300), "2")
	f.Add(uint16(5), "../../../devices/pci0000:00", uint16(9), "4: ACTIVE")
	f.Fuzz(func(t *testing.T, first uint16, text string, second uint16, other string) {
		changed := fstest.MapFS{}
		for name, file := range tree {
			changed[name] = file
		}
		for i, content := range map[uint16]string{first: text, second: other} {
			if set, _ := placement.ParseCPUSet(content); set.Len() > 256 {
				return // a map of this many files takes seconds
			}
			name := names[int(i)%len(names)]
			changed[name] = &fstest.MapFile{Data: []byte(content), Mode: tree[name].Mode}
		}
		checkTopology(t, ReadFS(changed, m.CPUs, allNeeds))
	})
}

// Network interfaces are not read unless requested.
func TestNICsAreReadOnDemand(t *testing.T) {
	want := example(t, "dgx-h100")
	got := ReadFS(treeOf(want), want.CPUs, Needs{Topology: true})
	assert.Empty(t, got.Topology.NICs)
	assert.Equal(t, want.Topology.CPUs, got.Topology.CPUs)
}
