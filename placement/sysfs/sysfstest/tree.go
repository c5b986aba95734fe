// Package sysfstest writes the kernel's files for a machine. Tests and benchmarks of their readers use
// it.
package sysfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing/fstest"

	"gorun/placement"
)

// The documentation of sysfs and of the drivers specifies these folders.
const (
	cpuDir    = "sys/devices/system/cpu"
	nodeDir   = "sys/devices/system/node"
	pciDir    = "sys/bus/pci/devices"
	netDir    = "sys/class/net"
	rdmaDir   = "sys/class/infiniband"
	nvidiaDir = "proc/driver/nvidia/gpus"
	kfdDir    = "sys/class/kfd/kfd/topology/nodes"
)

// Types of network interfaces from the kernel's if_arp.h.
const (
	arpEthernet   = 1
	arpInfiniBand = 32
)

// Tree has the files of a machine by name, without the leading slash.
type Tree struct{ fstest.MapFS }

// TreeOf returns the files that package sysfs reads to get the machine.
func TreeOf(m placement.Machine) fstest.MapFS {
	t := Tree{fstest.MapFS{}}
	t.limits(m)
	t.cpus(m.Topology)
	t.nodes(m.Topology)
	for _, gpu := range m.GPUs {
		t.GPU(gpu)
	}
	t.hive(m.GPUs)
	for _, nic := range m.Topology.NICs {
		t.NIC(nic)
	}
	return t.MapFS
}

// Put writes a one-line file.
func (t Tree) Put(name string, content any) {
	t.MapFS[name] = &fstest.MapFile{Data: fmt.Appendln(nil, content), Mode: 0o444}
}

// Link creates a relative symbolic link, as in sysfs.
func (t Tree) Link(name, target string) {
	up := strings.Repeat("../", strings.Count(name, "/"))
	t.MapFS[name] = &fstest.MapFile{Data: []byte(up + target), Mode: 0o777 | fs.ModeSymlink}
}

func (t Tree) limits(m placement.Machine) {
	memories := m.Topology.Memories
	if memories.Len() == 0 {
		for _, node := range m.Topology.Nodes {
			memories = memories.With(node.ID)
		}
	}
	t.Put("proc/self/status", fmt.Sprintf("Name:\tgorun\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s", m.CPUs,
		memories))
	t.Put("proc/self/cgroup", "0::/")
	t.Put("sys/fs/cgroup/cgroup.procs", 1)
	if m.Quota > 0 {
		t.Put("sys/fs/cgroup/cpu.max", fmt.Sprint(int(m.Quota*100000), " 100000"))
	}
	if m.MemoryLimit > 0 {
		t.Put("sys/fs/cgroup/memory.max", m.MemoryLimit)
	}
}

func (t Tree) cpus(topology *placement.Topology) {
	groups := map[string][]int{} // CPUs by the object's kind and number
	object := func(kind string, number int) placement.CPUSet {
		return placement.NewCPUSet(groups[fmt.Sprint(kind, number)]...)
	}
	var online placement.CPUSet
	for _, c := range topology.CPUs {
		online = online.With(c.ID)
		for kind, number := range map[string]int{
			"package": c.Package, "die": c.Die, "l3": c.L3, "l2": c.L2, "core": c.Core, "kind": c.Kind,
		} {
			key := fmt.Sprint(kind, number)
			groups[key] = append(groups[key], c.ID)
		}
	}
	t.Put(cpuDir+"/online", online)
	t.Put(cpuDir+"/present", online.Union(topology.Offline))
	t.Put(cpuDir+"/isolated", topology.Isolated)
	if groups["kind1"] != nil {
		t.Put("sys/devices/cpu_core/cpus", object("kind", 0))
		t.Put("sys/devices/cpu_atom/cpus", object("kind", 1))
	}
	for _, c := range topology.CPUs {
		dir := cpuDir + "/cpu" + strconv.Itoa(c.ID)
		t.Put(dir+"/topology/package_cpus_list", object("package", c.Package))
		t.Put(dir+"/topology/die_cpus_list", object("die", c.Die))
		t.Put(dir+"/topology/core_cpus_list", object("core", c.Core))
		for i, cache := range []struct {
			level int
			kind  string
			with  placement.CPUSet
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
			t.Put(index+"/level", cache.level)
			t.Put(index+"/type", cache.kind)
			t.Put(index+"/shared_cpu_list", cache.with)
		}
	}
}

func (t Tree) nodes(topology *placement.Topology) {
	var online placement.CPUSet
	for _, node := range topology.Nodes {
		online = online.With(node.ID)
		dir := nodeDir + "/node" + strconv.Itoa(node.ID)
		t.Put(dir+"/cpulist", node.CPUs)
		t.Put(dir+"/distance", strings.Trim(fmt.Sprint(node.Distances), "[]"))
		t.Put(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal: %14d kB\nNode %[1]d MemFree: 1 kB", node.ID, node.Memory>>10))
	}
	t.Put(nodeDir+"/online", online)
}

// Device adds a device and its parent bridges to the PCI bus, and returns the device's folder.
func (t Tree) Device(bus *placement.Bus, vendor, class string) (dir string) {
	dir = "sys/devices/" + bus.Root
	for _, bridge := range bus.Bridges {
		dir += "/" + bridge
		t.Put(dir+"/numa_node", bus.Node)
		t.Link(pciDir+"/"+bridge, dir)
		t.pcieLink(dir, &placement.PCIeLink{GTps: 64, Width: 32})
	}
	dir += "/" + bus.Address
	t.Put(dir+"/numa_node", bus.Node)
	t.Put(dir+"/local_cpulist", bus.Near)
	t.Put(dir+"/uevent", fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:0001\nPCI_SLOT_NAME=%s", class, vendor, bus.Address))
	t.Link(pciDir+"/"+bus.Address, dir)
	t.pcieLink(dir, bus.Link)
	return dir
}

// pcieLink writes the files of a device's link. If the link is nil, they say that it is unknown, as in
// kernels of virtual machines.
func (t Tree) pcieLink(dir string, link *placement.PCIeLink) {
	speed, width := "Unknown", 255
	if link != nil {
		speed, width = fmt.Sprintf("%.1f GT/s PCIe", link.GTps), link.Width
	}
	t.Put(dir+"/max_link_speed", speed)
	t.Put(dir+"/max_link_width", width)
	if link != nil && link.GTpsNow > 0 {
		t.Put(dir+"/current_link_speed", fmt.Sprintf("%.1f GT/s PCIe", link.GTpsNow))
		t.Put(dir+"/current_link_width", link.WidthNow)
	}
}

// GPU adds a GPU.
func (t Tree) GPU(gpu placement.GPU) {
	switch gpu.Vendor {
	case placement.NVIDIA:
		t.Device(gpu.Bus, "10DE", "30200")
		t.Put("dev/nvidia"+strconv.Itoa(gpu.Index), "")
		t.Put(nvidiaDir+"/"+gpu.PCI+"/information",
			fmt.Sprintf("Model: \t\t %s\nGPU UUID: \t GPU-????????\nDevice Minor: \t %d", gpu.Name, gpu.Index))
	case placement.AMD:
		dir := t.Device(gpu.Bus, "1002", "120000")
		t.Put(dir+"/product_name", gpu.Name)
		t.Put(dir+"/mem_info_vram_total", gpu.Memory)
	}
}

// hive writes the KFD nodes: two processors, then the GPUs.
func (t Tree) hive(gpus []placement.GPU) {
	node := map[string]int{}
	for i, gpu := range gpus {
		node[gpu.PCI] = i + 2
	}
	for i, gpu := range gpus {
		if gpu.Vendor != placement.AMD {
			continue
		}
		t.Put(fmt.Sprintf("%s/%d/properties", kfdDir, gpu.Bus.Node), "cpu_cores_count 96\nsimd_count 0")
		dir := fmt.Sprintf("%s/%d", kfdDir, i+2)
		number := strings.NewReplacer(":", "", ".", "").Replace(gpu.PCI)
		domain, _ := strconv.ParseUint(number[:4], 16, 64)
		bus, _ := strconv.ParseUint(number[4:6], 16, 64)
		t.Put(dir+"/properties", fmt.Sprintf("cpu_cores_count 0\nsimd_count 1216\nlocation_id %d\ndomain %d\nunique_id 0",
			bus<<8, domain))
		t.Put(dir+"/io_links/0/properties", fmt.Sprintf("type 2\nnode_from %d\nnode_to %d\nweight 20", i+2, gpu.Bus.Node))
		for j, l := range gpu.Links {
			t.Put(fmt.Sprintf("%s/io_links/%d/properties", dir, j+1),
				fmt.Sprintf("type 11\nnode_from %d\nnode_to %d\nweight 15", i+2, node[l.Peer]))
		}
	}
}

// NIC adds a network interface.
func (t Tree) NIC(nic placement.NIC) {
	vendor := "15B3"
	if nic.Kind == placement.EFA {
		vendor = "1D0F"
	}
	dir := t.Device(nic.Bus, vendor, "20700")
	if nic.Interface != "" {
		t.Interface(nic, dir+"/net/"+nic.Interface)
	}
	if nic.Port > 0 {
		t.rdma(nic, dir+"/infiniband/"+nic.Name)
		t.Link(dir+"/infiniband/"+nic.Name+"/device", dir)
	}
}

// Interface adds a network interface to the folder of any device.
func (t Tree) Interface(nic placement.NIC, dir string) {
	t.Link(netDir+"/"+nic.Interface, dir)
	kind := arpEthernet
	if nic.Kind == placement.InfiniBand {
		kind = arpInfiniBand
	}
	t.Put(dir+"/type", kind)
	t.Put(dir+"/address", "02:11:22:33:44:55")
	t.Put(dir+"/operstate", map[bool]string{true: "up", false: "down"}[nic.Up])
	t.Put(dir+"/speed", -1)
	if nic.Gbps > 0 {
		t.Put(dir+"/speed", int(nic.Gbps*1000))
	}
}

func (t Tree) rdma(nic placement.NIC, dir string) {
	t.Link(rdmaDir+"/"+nic.Name, dir)
	dir += "/ports/" + strconv.Itoa(nic.Port)
	t.Put(dir+"/link_layer", map[placement.NICKind]string{
		placement.InfiniBand: "InfiniBand",
		placement.RoCE:       "Ethernet", placement.EFA: "Unknown",
	}[nic.Kind])
	state, physical := "4: ACTIVE", "5: LinkUp"
	if !nic.Up {
		state, physical = "1: DOWN", "2: "+nic.State
	}
	t.Put(dir+"/state", state)
	t.Put(dir+"/phys_state", physical)
	t.Put(dir+"/rate", fmt.Sprintf("%g Gb/sec (4X NDR)", nic.Gbps))
	for i, gid := range []string{
		"fe80:0000:0000:0000:0011:22ff:fe33:4455", "fe80:0000:0000:0000:0011:22ff:fe33:4455",
		"0000:0000:0000:0000:0000:ffff:0a00:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001",
		"0000:0000:0000:0000:0000:0000:0000:0000",
	} {
		if i >= 2 && nic.GID < 0 {
			gid = "0000:0000:0000:0000:0000:0000:0000:0000"
		}
		t.Put(fmt.Sprintf("%s/gids/%d", dir, i), gid)
		if i < 4 {
			t.Put(fmt.Sprintf("%s/gid_attrs/types/%d", dir, i), []string{"IB/RoCE v1", "RoCE v2"}[i%2])
		}
	}
}

// OnDisk writes a tree into a real folder. A benchmark needs one to measure the cost of reads.
func OnDisk(dir string, tree fstest.MapFS) error {
	made := map[string]bool{} // thousands of files are in hundreds of folders
	for name, file := range tree {
		full := filepath.Join(dir, name)
		if folder := filepath.Dir(full); !made[folder] {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			made[folder] = true
		}
		var err error
		if file.Mode.Type() == fs.ModeSymlink {
			err = errors.Join(
				os.MkdirAll(filepath.Join(dir, path.Join(path.Dir(name), string(file.Data))), 0o755),
				os.Symlink(string(file.Data), full),
			)
		} else {
			err = os.WriteFile(full, file.Data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a folder or file.
func (t Tree) Remove(dir string) {
	for name := range t.MapFS {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			delete(t.MapFS, name)
		}
	}
}

// Resolve returns the target of a link.
func (t Tree) Resolve(name string) string {
	return path.Join(path.Dir(name), string(t.MapFS[name].Data))
}
