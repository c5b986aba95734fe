package sysfs

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
)

var everything = Needs{CPUs: true, Memory: true, Topology: true, NICs: true, Links: true}

// example returns an example machine without the facts from NVIDIA's library.
func example(t testing.TB, name string) placement.Machine {
	t.Helper()
	m, err := placement.Example(name)
	require.NoError(t, err)
	for i := range m.GPUs {
		if m.GPUs[i].Vendor == placement.NVIDIA {
			m.GPUs[i].Memory, m.GPUs[i].Links = 0, nil
		}
	}
	return m
}

// Reading the files of a machine returns an equal machine. The files use an independent numbering.
func TestExamplesAreRead(t *testing.T) {
	for _, name := range placement.Examples() {
		t.Run(name, func(t *testing.T) {
			want := example(t, name)
			assert.Equal(t, want, ReadFS(treeOf(want), want.CPUs, everything))
		})
	}
}

func TestExampleIsReadFromFolder(t *testing.T) {
	want := example(t, "hybrid")
	dir := onDisk(t, treeOf(want))
	assert.Equal(t, want, ReadFS(os.DirFS(dir), want.CPUs, everything))
	assert.Equal(t, want, ReadFS(disk(dir+"/"), want.CPUs, everything), "by the fast reader")
}

// few returns a machine with two nodes of two cores with two threads, one GPU and one interface.
func few(t *testing.T) (placement.Machine, fakeTree) {
	t.Helper()
	m := example(t, "two-socket-intel")
	tree := fakeTree{MapFS: treeOf(m)}
	return m, tree
}

func TestStrangeMachines(t *testing.T) {
	tests := []struct {
		name   string
		change func(fakeTree)
		check  func(t *testing.T, m placement.Machine)
		notes  []string
	}{
		{
			"no list of online CPUs", func(tree fakeTree) { delete(tree.MapFS, cpuDir+"/online") },
			func(t *testing.T, m placement.Machine) { assert.Len(t, m.Topology.CPUs, 128) },
			[]string{"the online CPUs are unknown: cannot read /sys/devices/system/cpu/online; gorun assumes the allowed ones"},
		},
		{
			"a container whose list of CPUs is made up", func(tree fakeTree) { tree.Put(cpuDir+"/online", "0-125") },
			func(t *testing.T, m placement.Machine) { assert.Len(t, m.Topology.CPUs, 128) },
			[]string{"CPUs 126-127 are allowed, but missing from /sys/devices/system/cpu/online (0-125)"},
		},
		{
			"no NUMA nodes", func(tree fakeTree) {
				tree.Remove(nodeDir)
				tree.Put("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB")
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, []placement.NUMANode{{CPUs: cpus(t, "0-127"), Memory: 16 << 20, Distances: []int{10}}},
					m.Topology.Nodes)
				assert.Equal(t, 1, m.Topology.CPU(40).Package)
			},
			[]string{"NUMA nodes are unknown: cannot read /sys/devices/system/node; all CPUs count as one node"},
		},
		{
			"an empty cpulist", func(tree fakeTree) { tree.Put(nodeDir+"/node1/cpulist", "") },
			func(t *testing.T, m placement.Machine) { assert.Equal(t, "0-127", m.Topology.Nodes[0].CPUs.String()) },
			[]string{"CPUs 32-63,96-127 are in no NUMA node: gorun assumes node 0"},
		},
		{
			"a distance too many", func(tree fakeTree) { tree.Put(nodeDir+"/node1/distance", "21 10 21") },
			func(t *testing.T, m placement.Machine) { assert.Nil(t, m.Topology.Nodes[1].Distances) },
			[]string{"distances of NUMA node 1 are unknown: /sys/devices/system/node/node1/distance has 3 numbers for 2 nodes"},
		},
		{
			"distances that are no numbers", func(tree fakeTree) { tree.Put(nodeDir+"/node1/distance", "far 10") },
			func(t *testing.T, m placement.Machine) { assert.NotNil(t, m.Topology.Nodes[0].Distances) },
			[]string{"distances of NUMA node 1 are unknown: /sys/devices/system/node/node1/distance has 0 numbers for 2 nodes"},
		},
		{
			"no topology of CPUs", func(tree fakeTree) {
				for cpu := range 128 {
					tree.Remove(cpuDir + "/cpu" + itoa(cpu))
				}
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, placement.CPU{ID: 96, Node: 1, Die: -1, L3: -1, L2: -1, Core: 96}, *m.Topology.CPU(96))
			},
			[]string{"the package of CPU 0 is unknown: gorun assumes the first"},
		},
		{
			"every CPU is said to be of one core", func(tree fakeTree) {
				for cpu := range 128 {
					tree.Put(cpuDir+"/cpu"+itoa(cpu)+"/topology/core_cpus_list", "0-127")
				}
			},
			func(t *testing.T, m placement.Machine) { assert.Zero(t, m.Topology.CPU(127).Thread) },
			[]string{"hardware threads are unknown: the kernel lists more than 8 for a core, so every CPU counts as a core"},
		},
		{
			"no caches", func(tree fakeTree) {
				for cpu := range 128 {
					tree.Remove(cpuDir + "/cpu" + itoa(cpu) + "/cache")
				}
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, placement.CPU{ID: 96, Package: 1, Node: 1, Die: 1, L3: -1, L2: -1, Core: 32, Thread: 1},
					*m.Topology.CPU(96))
			}, nil,
		},
		{
			"an old kernel's names", func(tree fakeTree) {
				for cpu := range 128 {
					dir := cpuDir + "/cpu" + itoa(cpu) + "/topology/"
					tree.MapFS[dir+"core_siblings_list"] = tree.MapFS[dir+"package_cpus_list"]
					tree.MapFS[dir+"thread_siblings_list"] = tree.MapFS[dir+"core_cpus_list"]
					delete(tree.MapFS, dir+"package_cpus_list")
					delete(tree.MapFS, dir+"core_cpus_list")
				}
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, placement.CPU{ID: 96, Package: 1, Node: 1, Die: 1, L3: 1, L2: 32, Core: 32, Thread: 1},
					*m.Topology.CPU(96))
			}, nil,
		},
		{
			"threads switched off", func(tree fakeTree) { tree.Put(cpuDir+"/smt/active", "0") },
			func(t *testing.T, m placement.Machine) { assert.Zero(t, m.Topology.CPU(127).Thread) }, nil,
		},
		{
			"lists that are no lists", func(tree fakeTree) {
				tree.Put(cpuDir+"/isolated", "all")
				tree.Put(nodeDir+"/node0/cpulist", "0-")
				tree.Put("proc/self/status", "Mems_allowed_list:\tx")
			},
			func(t *testing.T, m placement.Machine) { assert.Zero(t, m.Topology.Isolated.Len()) },
			[]string{
				`/sys/devices/system/cpu/isolated: CPU list "all": "all" is not a CPU number below 65536`,
				`/sys/devices/system/node/node0/cpulist: CPU list "0-": "" is not a CPU number below 65536`,
				`CPUs 0-31,64-95 are in no NUMA node: gorun assumes node 0`,
				`the allowed memory is unknown: /proc/self/status: CPU list "x": "x" is not a CPU number below 65536`,
			},
		},
		{
			"firmware without nodes of devices", func(tree fakeTree) {
				for _, address := range []string{"0000:04:00.0", "0000:31:00.0", "0000:00:1c.4", "0000:30:02.0"} {
					tree.Put(tree.Resolve(pciDir+"/"+address)+"/numa_node", -1)
				}
				tree.Put(tree.Resolve(pciDir+"/0000:04:00.0")+"/local_cpulist", "0-127")
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, -1, m.Topology.NICs[0].Bus.Node, "all CPUs are near: nobody knows")
				assert.Equal(t, 0, m.Topology.NICs[1].Bus.Node, "by the CPUs near to it")
			},
			[]string{"the NUMA node of PCI device 0000:04:00.0 is unknown: the firmware does not report it"},
		},
		{
			"a node only at the root port", func(tree fakeTree) {
				tree.Put(tree.Resolve(pciDir+"/0000:04:00.0")+"/numa_node", -1)
				tree.Put(tree.Resolve(pciDir+"/0000:00:1c.4")+"/numa_node", 1)
				delete(tree.MapFS, tree.Resolve(pciDir+"/0000:04:00.0")+"/local_cpulist")
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, 1, m.Topology.NICs[0].Bus.Node)
				assert.Equal(t, "32-63,96-127", m.Topology.NICs[0].Bus.Near.String())
			}, nil,
		},
		{
			"a device at a node without CPUs", func(tree fakeTree) {
				tree.Put(nodeDir+"/online", "0-2")
				for i, distances := range []string{"10 21 30", "21 10 14", "30 14 10"} {
					tree.Put(nodeDir+"/node"+itoa(i)+"/distance", distances)
				}
				tree.Put(nodeDir+"/node2/cpulist", "")
				tree.Put(tree.Resolve(pciDir+"/0000:04:00.0")+"/numa_node", 2)
			},
			func(t *testing.T, m placement.Machine) {
				assert.Equal(t, 1, m.Topology.NICs[0].Bus.Node)
				assert.Equal(t, "32-63,96-127", m.Topology.NICs[0].Bus.Near.String())
				assert.Equal(t, placement.NUMANode{ID: 2, Distances: []int{30, 14, 10}}, m.Topology.Nodes[2])
			}, nil,
		},
		{
			"no PCI bus", func(tree fakeTree) { tree.Remove(pciDir) },
			func(t *testing.T, m placement.Machine) {
				assert.Nil(t, m.Topology.NICs[0].Bus)
				assert.False(t, m.Topology.Virtual)
			}, nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, tree := few(t)
			test.change(tree)
			got := ReadFS(tree.MapFS, m.CPUs, everything)
			assert.Equal(t, test.notes, got.Notes)
			checkTopology(t, got)
			test.check(t, got)
		})
	}
}

// ARM reports the capacity of each CPU. Intel reports only two kinds.
func TestKindsOfCPUs(t *testing.T) {
	m := example(t, "offline")
	tree := fakeTree{MapFS: treeOf(m)}
	for _, cpu := range m.Topology.CPUs {
		tree.Put(cpuDir+"/cpu"+itoa(cpu.ID)+"/cpu_capacity", map[bool]int{true: 1024, false: 300 + cpu.ID/16*100}[cpu.ID < 4])
	}
	kinds := map[int][]int{}
	for _, cpu := range ReadFS(tree.MapFS, m.CPUs, everything).Topology.CPUs {
		kinds[cpu.Kind] = append(kinds[cpu.Kind], cpu.ID)
	}
	assert.Equal(t, map[int][]int{
		0: {0, 1, 2}, 1: {16, 17, 18, 24, 25, 26, 27, 28, 29, 30, 31}, 2: {4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15},
	}, kinds)

	delete(tree.MapFS, cpuDir+"/cpu17/cpu_capacity")
	for _, cpu := range ReadFS(tree.MapFS, m.CPUs, everything).Topology.CPUs {
		assert.Zero(t, cpu.Kind, "what some tell says nothing")
	}
}

// In AMD's CPX mode, one card is several GPUs. Their functions are not on the PCI bus.
func TestPartsOfAMDGPUs(t *testing.T) {
	m := example(t, "mi300x")
	tree := fakeTree{MapFS: treeOf(m)}
	tree.Put(kfdDir+"/10/properties", "simd_count 152\nlocation_id 6913\ndomain 0")
	tree.Put(kfdDir+"/10/gpu_id", 4711)
	tree.Put("sys/class/kfd/kfd/proc/99/vram_4711", 1<<20)
	got := ReadFS(tree.MapFS, m.CPUs, everything)
	require.Len(t, got.GPUs, 9)
	assert.Equal(t, "0000:1b:00.1", got.GPUs[1].PCI)
	assert.Equal(t, m.GPUs[0].Bus, got.GPUs[1].Bus)
	assert.Equal(t, "AMD Instinct MI300X OAM", got.GPUs[1].Name)
	assert.True(t, got.GPUs[1].Used)
	assert.False(t, got.GPUs[0].Used)

	tree.Put(kfdDir+"/10/properties", "simd_count 152\nlocation_id 268442368\ndomain 0") // other kernels
	assert.Equal(t, got.GPUs, ReadFS(tree.MapFS, m.CPUs, everything).GPUs)
}

// The result is consistent even if any part of the tree is unreadable.
func TestHiddenFolders(t *testing.T) {
	for _, name := range []string{"dgx-h100", "mi300x", "hybrid"} {
		want := example(t, name)
		for _, dir := range []string{
			"sys", "proc", "dev", "sys/devices", "sys/devices/system/cpu", "sys/bus", "sys/class", "sys/class/net",
			"sys/class/infiniband", kfdDir, nvidiaDir,
		} {
			tree := fakeTree{MapFS: treeOf(want)}
			tree.Remove(dir)
			t.Run(name+" without "+dir, func(t *testing.T) {
				checkTopology(t, ReadFS(tree.MapFS, want.CPUs, everything))
			})
		}
	}
}

func TestNothingIsThere(t *testing.T) {
	m := ReadFS(fstest.MapFS{}, placement.CPUSet{}, everything)
	assert.Empty(t, m.Topology.CPUs)
	assert.Len(t, m.Topology.Nodes, 1)

	m = ReadFS(fstest.MapFS{}, cpus(t, "4-5"), everything)
	assert.Len(t, m.Topology.CPUs, 2)
	checkTopology(t, m)
}

func TestThisMachinesTopology(t *testing.T) {
	m := Read(everything)
	checkTopology(t, m)
	require.NotEmpty(t, m.Topology.CPUs)
	for cpu := range m.CPUs.All() {
		assert.NotNil(t, m.Topology.CPU(cpu), "allowed CPU %d", cpu)
	}
	same := ReadFS(os.DirFS("/"), m.CPUs, everything)
	assert.Equal(t, hardware(m), hardware(same), "the standard library's reader sees the same")
}

// hardware removes virtual interfaces, because other tests create and delete some.
func hardware(m placement.Machine) placement.Machine {
	m.Topology.NICs = slices.DeleteFunc(m.Topology.NICs, func(n placement.NIC) bool { return n.Kind == placement.Virtual })
	return m
}

// checkTopology checks the invariants of any machine.
func checkTopology(t *testing.T, m placement.Machine) {
	t.Helper()
	topology := m.Topology
	require.NotNil(t, topology)
	require.NotEmpty(t, topology.Nodes)
	cores, inNodes := map[int]int{}, 0
	for i, cpu := range topology.CPUs {
		require.True(t, i == 0 || topology.CPUs[i-1].ID < cpu.ID, "CPUs are sorted")
		require.GreaterOrEqual(t, cpu.Package, 0)
		require.Equal(t, cores[cpu.Core], cpu.Thread, "threads of core %d are counted from 0", cpu.Core)
		cores[cpu.Core]++
		require.NotNil(t, topology.Node(cpu.Node), "node of CPU %d", cpu.ID)
		require.True(t, topology.Node(cpu.Node).CPUs.Has(cpu.ID), "CPU %d is in its node", cpu.ID)
	}
	for core := range len(cores) {
		require.Positive(t, cores[core], "cores are counted without holes")
	}
	for _, node := range topology.Nodes {
		inNodes += node.CPUs.Len()
	}
	require.Equal(t, len(topology.CPUs), inNodes, "nodes have no CPU in common")
	require.True(t, slices.IsSortedFunc(topology.NICs, func(a, b placement.NIC) int {
		return boolean(a.Kind == placement.Virtual) - boolean(b.Kind == placement.Virtual)
	}))
}

// The benchmark uses a real folder to measure the cost of reads. Set TMPDIR to a memory file system,
// because its speed is similar to that of sysfs.
func BenchmarkTopology(b *testing.B) {
	for _, name := range []string{"dgx-a100", "dgx-h100", "mi300x", "p5", "gb200-tray"} {
		b.Run(name, func(b *testing.B) {
			m := example(b, name)
			root := disk(onDisk(b, treeOf(m)) + "/")
			for b.Loop() {
				ReadFS(root, m.CPUs, everything)
			}
		})
	}
}

// Both ends of a PCIe link report their capabilities. An invalid rate or width is unknown.
func TestPCIeLinks(t *testing.T) {
	m := example(t, "mi300x")
	gpu := m.GPUs[0].Bus
	port := "sys/devices/" + gpu.Root + "/" + strings.Join(gpu.Bridges, "/")
	device := port + "/" + gpu.Address
	tests := []struct {
		name  string
		files map[string]string // of the device and its port, "" removes one
		want  *placement.PCIeLink
	}{
		{"nothing changed", nil, &placement.PCIeLink{GTps: 32, Width: 16}},
		{
			"an older port",
			map[string]string{port + "/max_link_speed": "16.0 GT/s PCIe"},
			&placement.PCIeLink{GTps: 16, Width: 16},
		},
		{"a narrower port", map[string]string{port + "/max_link_width": "8"}, &placement.PCIeLink{GTps: 32, Width: 8}},
		{"an older kernel", map[string]string{device + "/max_link_speed": "8 GT/s"}, &placement.PCIeLink{GTps: 8, Width: 16}},
		{
			"a port that does not tell",
			map[string]string{port + "/max_link_speed": "Unknown", port + "/max_link_width": "255"},
			&placement.PCIeLink{GTps: 32, Width: 16},
		},
		{
			"idle, and loose",
			map[string]string{device + "/current_link_speed": "2.5 GT/s PCIe", device + "/current_link_width": "8"},
			&placement.PCIeLink{GTps: 32, Width: 16, GTpsNow: 2.5, WidthNow: 8},
		},
		{"no file", map[string]string{device + "/max_link_width": ""}, nil},
		{"a rate that there is not", map[string]string{device + "/max_link_speed": "33 GT/s"}, nil},
		{"nonsense", map[string]string{device + "/max_link_speed": "NaN GT/s", device + "/max_link_width": "-16"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fakeTree{MapFS: treeOf(m)}
			for name, text := range tt.files {
				if tree.Put(name, text); text == "" {
					delete(tree.MapFS, name)
				}
			}
			got := ReadFS(tree, m.CPUs, everything)
			assert.Equal(t, tt.want, got.GPUs[0].Bus.Link)
			assert.Equal(t, m.GPUs[1], got.GPUs[1])
		})
	}
	unasked := ReadFS(treeOf(m), m.CPUs, Needs{Topology: true})
	assert.Nil(t, unasked.GPUs[0].Bus.Link)
}
