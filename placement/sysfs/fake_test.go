package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// fakeTree writes the files that a kernel would show of a machine.
type fakeTree struct{ fstest.MapFS }

func treeOf(m placement.Machine) fstest.MapFS {
	t := fakeTree{fstest.MapFS{}}
	t.limits(m)
	t.cpus(m.Topology)
	t.nodes(m.Topology)
	for _, gpu := range m.GPUs {
		t.gpu(gpu)
	}
	t.hive(m.GPUs)
	for _, nic := range m.Topology.NICs {
		t.nic(nic)
	}
	return t.MapFS
}

func (t fakeTree) put(name string, content any) {
	t.MapFS[name] = &fstest.MapFile{Data: fmt.Appendln(nil, content), Mode: 0o444}
}

// link makes a symbolic link as sysfs has them, relative.
func (t fakeTree) link(name, target string) {
	up := strings.Repeat("../", strings.Count(name, "/"))
	t.MapFS[name] = &fstest.MapFile{Data: []byte(up + target), Mode: 0o777 | fs.ModeSymlink}
}

func (t fakeTree) limits(m placement.Machine) {
	memories := m.Topology.Memories.String()
	if memories == "" {
		var all mask
		for _, node := range m.Topology.Nodes {
			all.add(node.ID)
		}
		memories = all.set().String()
	}
	t.put("proc/self/status", fmt.Sprintf("Name:\tgorun\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s", m.CPUs, memories))
	t.put("proc/self/cgroup", "0::/")
	t.put("sys/fs/cgroup/cgroup.procs", 1)
	if m.Quota > 0 {
		t.put("sys/fs/cgroup/cpu.max", fmt.Sprint(int(m.Quota*100000), " 100000"))
	}
	if m.MemoryLimit > 0 {
		t.put("sys/fs/cgroup/memory.max", m.MemoryLimit)
	}
}

func (t fakeTree) cpus(topology *placement.Topology) {
	groups := map[string]*mask{} // by the object's kind and number
	var online, present mask
	object := func(kind string, number int) *mask {
		key := fmt.Sprint(kind, number)
		if groups[key] == nil {
			groups[key] = &mask{}
		}
		return groups[key]
	}
	for _, c := range topology.CPUs {
		online.add(c.ID)
		present.add(c.ID)
		object("package", c.Package).add(c.ID)
		object("die", c.Die).add(c.ID)
		object("l3", c.L3).add(c.ID)
		object("l2", c.L2).add(c.ID)
		object("core", c.Core).add(c.ID)
		object("kind", c.Kind).add(c.ID)
	}
	for _, cpu := range members(topology.Offline) {
		present.add(cpu)
	}
	t.put(cpuDir+"/online", online.set())
	t.put(cpuDir+"/present", present.set())
	t.put(cpuDir+"/isolated", topology.Isolated)
	if groups["kind1"] != nil {
		t.put("sys/devices/cpu_core/cpus", groups["kind0"].set())
		t.put("sys/devices/cpu_atom/cpus", groups["kind1"].set())
	}
	for _, c := range topology.CPUs {
		dir := cpuDir + "/cpu" + strconv.Itoa(c.ID)
		t.put(dir+"/topology/package_cpus_list", object("package", c.Package).set())
		t.put(dir+"/topology/die_cpus_list", object("die", c.Die).set())
		t.put(dir+"/topology/core_cpus_list", object("core", c.Core).set())
		for i, cache := range []struct {
			level int
			kind  string
			with  *mask
		}{
			{1, "Data", object("core", c.Core)},
			{1, "Instruction", object("core", c.Core)},
			{2, "Unified", object("l2", c.L2)},
			{3, "Unified", object("l3", c.L3)},
		} {
			if cache.level == 3 && c.L3 < 0 {
				continue
			}
			index := fmt.Sprintf("%s/cache/index%d", dir, i)
			t.put(index+"/level", cache.level)
			t.put(index+"/type", cache.kind)
			t.put(index+"/shared_cpu_list", cache.with.set())
		}
	}
}

func (t fakeTree) nodes(topology *placement.Topology) {
	var online mask
	for _, node := range topology.Nodes {
		online.add(node.ID)
		dir := nodeDir + "/node" + strconv.Itoa(node.ID)
		t.put(dir+"/cpulist", node.CPUs)
		t.put(dir+"/distance", strings.Trim(fmt.Sprint(node.Distances), "[]"))
		t.put(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal: %14d kB\nNode %[1]d MemFree: 1 kB", node.ID, node.Memory>>10))
	}
	t.put(nodeDir+"/online", online.set())
}

// device puts a device and the bridges above it onto the PCI bus, and returns its
// folder.
func (t fakeTree) device(bus *placement.Bus, vendor, class string) (dir string) {
	dir = "sys/devices/" + bus.Root
	for _, bridge := range bus.Bridges {
		dir += "/" + bridge
		t.put(dir+"/numa_node", bus.Node)
		t.link(pciDir+"/"+bridge, dir)
		t.pcieLink(dir, &placement.PCIeLink{GTps: 64, Width: 32})
	}
	dir += "/" + bus.Address
	t.put(dir+"/numa_node", bus.Node)
	t.put(dir+"/local_cpulist", bus.Near)
	t.put(dir+"/uevent", fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:0001\nPCI_SLOT_NAME=%s", class, vendor, bus.Address))
	t.link(pciDir+"/"+bus.Address, dir)
	t.pcieLink(dir, bus.Link)
	return dir
}

// pcieLink writes what a device tells of its link; nil: that it does not know, as
// kernels of virtual machines do.
func (t fakeTree) pcieLink(dir string, link *placement.PCIeLink) {
	speed, width := "Unknown", 255
	if link != nil {
		speed, width = fmt.Sprintf("%.1f GT/s PCIe", link.GTps), link.Width
	}
	t.put(dir+"/max_link_speed", speed)
	t.put(dir+"/max_link_width", width)
	if link != nil && link.GTpsNow > 0 {
		t.put(dir+"/current_link_speed", fmt.Sprintf("%.1f GT/s PCIe", link.GTpsNow))
		t.put(dir+"/current_link_width", link.WidthNow)
	}
}

func (t fakeTree) gpu(gpu placement.GPU) {
	switch gpu.Vendor {
	case placement.NVIDIA:
		t.device(gpu.Bus, "10DE", "30200")
		t.put("dev/nvidia"+strconv.Itoa(gpu.Index), "")
		t.put(nvidiaDir+"/"+gpu.PCI+"/information", fmt.Sprintf("Model: \t\t %s\nGPU UUID: \t GPU-????????\nDevice Minor: \t %d", gpu.Name, gpu.Index))
	case placement.AMD:
		dir := t.device(gpu.Bus, "1002", "120000")
		t.put(dir+"/product_name", gpu.Name)
		t.put(dir+"/mem_info_vram_total", gpu.Memory)
	}
}

// hive writes the nodes of AMD's compute driver: two processors, then the GPUs.
func (t fakeTree) hive(gpus []placement.GPU) {
	node := map[string]int{}
	for i, gpu := range gpus {
		node[gpu.PCI] = i + 2
	}
	for i, gpu := range gpus {
		if gpu.Vendor != placement.AMD {
			continue
		}
		t.put(fmt.Sprintf("%s/%d/properties", kfdDir, gpu.Bus.Node), "cpu_cores_count 96\nsimd_count 0")
		dir := fmt.Sprintf("%s/%d", kfdDir, i+2)
		number := strings.NewReplacer(":", "", ".", "").Replace(gpu.PCI)
		domain, _ := strconv.ParseUint(number[:4], 16, 64)
		bus, _ := strconv.ParseUint(number[4:6], 16, 64)
		t.put(dir+"/properties", fmt.Sprintf("cpu_cores_count 0\nsimd_count 1216\nlocation_id %d\ndomain %d\nunique_id 0", bus<<8, domain))
		t.put(dir+"/io_links/0/properties", fmt.Sprintf("type 2\nnode_from %d\nnode_to %d\nweight 20", i+2, gpu.Bus.Node))
		for j, l := range gpu.Links {
			t.put(fmt.Sprintf("%s/io_links/%d/properties", dir, j+1), fmt.Sprintf("type 11\nnode_from %d\nnode_to %d\nweight 15", i+2, node[l.Peer]))
		}
	}
}

func (t fakeTree) nic(nic placement.NIC) {
	vendor := "15B3"
	if nic.Kind == placement.EFA {
		vendor = "1D0F"
	}
	dir := t.device(nic.Bus, vendor, "20700")
	if nic.Interface != "" {
		t.netdev(nic, dir+"/net/"+nic.Interface)
	}
	if nic.Port > 0 {
		t.rdma(nic, dir+"/infiniband/"+nic.Name)
		t.link(dir+"/infiniband/"+nic.Name+"/device", dir)
	}
}

func (t fakeTree) netdev(nic placement.NIC, dir string) {
	t.link(netDir+"/"+nic.Interface, dir)
	kind := arpEthernet
	if nic.Kind == placement.InfiniBand {
		kind = arpInfiniBand
	}
	t.put(dir+"/type", kind)
	t.put(dir+"/address", "02:11:22:33:44:55")
	t.put(dir+"/operstate", map[bool]string{true: "up", false: "down"}[nic.Up])
	t.put(dir+"/speed", -1)
	if nic.Gbps > 0 {
		t.put(dir+"/speed", int(nic.Gbps*1000))
	}
}

func (t fakeTree) rdma(nic placement.NIC, dir string) {
	t.link(rdmaDir+"/"+nic.Name, dir)
	dir += "/ports/" + strconv.Itoa(nic.Port)
	t.put(dir+"/link_layer", map[placement.NICKind]string{placement.InfiniBand: "InfiniBand", placement.RoCE: "Ethernet", placement.EFA: "Unknown"}[nic.Kind])
	state, physical := "4: ACTIVE", "5: LinkUp"
	if !nic.Up {
		state, physical = "1: DOWN", "2: "+nic.State
	}
	t.put(dir+"/state", state)
	t.put(dir+"/phys_state", physical)
	t.put(dir+"/rate", fmt.Sprintf("%g Gb/sec (4X NDR)", nic.Gbps))
	for i, gid := range []string{
		"fe80:0000:0000:0000:0011:22ff:fe33:4455", "fe80:0000:0000:0000:0011:22ff:fe33:4455",
		"0000:0000:0000:0000:0000:ffff:0a00:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001",
		"0000:0000:0000:0000:0000:0000:0000:0000",
	} {
		if i >= 2 && nic.GID < 0 {
			gid = "0000:0000:0000:0000:0000:0000:0000:0000"
		}
		t.put(fmt.Sprintf("%s/gids/%d", dir, i), gid)
		if i < 4 {
			t.put(fmt.Sprintf("%s/gid_attrs/types/%d", dir, i), []string{"IB/RoCE v1", "RoCE v2"}[i%2])
		}
	}
}

// onDisk writes a tree into a folder, as only a real one shows what reading costs.
func onDisk(t testing.TB, tree fstest.MapFS) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, file := range tree {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if file.Mode.Type() == fs.ModeSymlink {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, path.Join(path.Dir(name), string(file.Data))), 0o755))
			require.NoError(t, os.Symlink(string(file.Data), full))
			continue
		}
		require.NoError(t, os.WriteFile(full, file.Data, 0o644))
	}
	return dir
}

// remove takes a folder or file away.
func (t fakeTree) remove(dir string) {
	for name := range t.MapFS {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			delete(t.MapFS, name)
		}
	}
}

// resolve follows a link.
func (t fakeTree) resolve(name string) string {
	return path.Join(path.Dir(name), string(t.MapFS[name].Data))
}

func itoa(n int) string { return strconv.Itoa(n) }
