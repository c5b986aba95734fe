package sysfs

import (
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// bus returns the position of a PCI device, or nil if the device does not exist. The target of the
// device's link on the bus is the position in the tree:
//
//	../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0
func (r *reader) bus(address string) *placement.Bus {
	target, err := fs.ReadLink(r.root, pciDir+"/"+address)
	if err != nil && !r.exists(pciDir+"/"+address) {
		return nil
	}
	bus := &placement.Bus{Address: address}
	bus.Root, bus.Bridges, _ = busPath(target)
	r.place(bus)
	if r.needs.Links {
		bus.Link = r.pcieLink(bus)
	}
	return bus
}

// busPath parses the position of a device in the tree. The address is that of the last PCI function in
// the path: the device itself or its parent.
func busPath(target string) (root string, bridges []string, address string) {
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case isAddress(part) && root != "":
			if address != "" {
				bridges = append(bridges, address)
			}
			address = part
		case isRoot(part):
			root, bridges, address = part, nil, ""
		}
	}
	if address == "" {
		return "", nil, ""
	}
	return root, bridges, address
}

// isRoot matches a host bridge: "pci0000:15".
func isRoot(name string) bool {
	rest, ok := strings.CutPrefix(name, "pci")
	domain, bus, colon := strings.Cut(rest, ":")
	return ok && colon && isHex(domain, 4, 8) && isHex(bus, 2, 2)
}

// isAddress matches a PCI function: "0000:1b:00.0".
func isAddress(name string) bool {
	domain, rest, ok := strings.Cut(name, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	device, function, ok3 := strings.Cut(rest, ".")
	return ok && ok2 && ok3 && isHex(domain, 4, 8) && isHex(bus, 2, 2) && isHex(device, 2, 2) && isHex(function, 1, 1)
}

// isHex matches a lowercase hexadecimal number.
func isHex(text string, least, most int) bool {
	return len(text) >= least && len(text) <= most && strings.Trim(text, "0123456789abcdef") == ""
}

// place sets the NUMA node and the local CPUs of a device. Firmware often does not report the node. In
// that case place uses the node of the local CPUs, if they are not all CPUs. Otherwise it uses the
// node of a bridge above the device.
func (r *reader) place(bus *placement.Bus) {
	nodes := r.machine.Topology.Nodes
	bus.Node = -1
	if len(nodes) == 1 {
		bus.Node, bus.Near = nodes[0].ID, nodes[0].CPUs
		return
	}
	if r.settle(bus, r.deviceNode(bus.Address)) {
		return
	}
	near, _ := r.cpus(pciDir + "/" + bus.Address + "/local_cpulist")
	for _, node := range nodes {
		if near.Len() > 0 && near.SubsetOf(node.CPUs) {
			bus.Node, bus.Near = node.ID, near
			return
		}
	}
	for i := len(bus.Bridges) - 1; i >= 0; i-- {
		if r.settle(bus, r.deviceNode(bus.Bridges[i])) {
			return
		}
	}
}

// settle assigns a device to an existing node. The local CPUs of a device are those of its node. If
// the node has no CPUs, they are those of the nearest node with CPUs.
func (r *reader) settle(bus *placement.Bus, id int) bool {
	node := r.machine.Topology.Node(id)
	if node == nil {
		return false
	}
	if node.CPUs.Len() == 0 {
		shortest := math.MaxInt
		for i, other := range r.machine.Topology.Nodes {
			if other.CPUs.Len() > 0 && i < len(node.Distances) && node.Distances[i] < shortest {
				shortest, id = node.Distances[i], other.ID
			}
		}
		node = r.machine.Topology.Node(id)
	}
	bus.Node, bus.Near = id, node.CPUs
	return node.CPUs.Len() > 0
}

func (r *reader) deviceNode(address string) int {
	n, ok := r.number(pciDir + "/" + address + "/numa_node")
	if !ok {
		return -1
	}
	return n
}

// pcieLink reads the PCIe link of a device. Both ends report their capabilities. The result is nil if
// the device does not report a link.
func (r *reader) pcieLink(bus *placement.Bus) *placement.PCIeLink {
	device := pciDir + "/" + bus.Address
	link := &placement.PCIeLink{
		GTps: r.linkSpeed(device + "/max_link_speed"), Width: r.linkWidth(device + "/max_link_width"),
		GTpsNow: r.linkSpeed(device + "/current_link_speed"), WidthNow: r.linkWidth(device + "/current_link_width"),
	}
	if link.GTps == 0 || link.Width == 0 {
		return nil
	}
	if n := len(bus.Bridges); n > 0 {
		port := pciDir + "/" + bus.Bridges[n-1]
		if most := r.linkSpeed(port + "/max_link_speed"); most > 0 {
			link.GTps = min(link.GTps, most)
		}
		if most := r.linkWidth(port + "/max_link_width"); most > 0 {
			link.Width = min(link.Width, most)
		}
	}
	return link
}

// linkSpeed parses "32.0 GT/s PCIe" (older kernels: "8 GT/s"). The result is 0 if the text is not a
// PCIe rate, such as "Unknown".
func (r *reader) linkSpeed(name string) float64 {
	text, _ := r.text(name)
	number, _, _ := strings.Cut(text, " ")
	speed, err := strconv.ParseFloat(number, 64)
	if err != nil || (placement.PCIeLink{GTps: speed}).Generation() == 0 {
		return 0
	}
	return speed
}

// maxLanes is the maximum width of PCIe. The kernel writes 63 or 255 for an unknown width.
const maxLanes = 32

func (r *reader) linkWidth(name string) int {
	if n, ok := r.number(name); ok && n > 0 && n <= maxLanes {
		return n
	}
	return 0
}

// describeGPU adds the facts about a GPU that do not require its vendor's library.
func (r *reader) describeGPU(gpu *placement.GPU) {
	gpu.Bus = r.bus(gpu.PCI)
	if device, _, ok := strings.Cut(gpu.PCI, "."); ok && gpu.Bus == nil {
		gpu.Bus = r.bus(device + ".0") // AMD's compute partitions have nonexistent function numbers
	}
	if gpu.Vendor == placement.AMD && gpu.Bus != nil {
		dir := pciDir + "/" + gpu.Bus.Address
		gpu.Name, _ = r.text(dir + "/product_name")
		total, _ := r.text(dir + "/mem_info_vram_total")
		gpu.Memory, _ = strconv.ParseInt(total, 10, 64)
	}
	if node := r.kfdNode[gpu.PCI]; node != "" {
		gpu.Links = r.kfdLinks(node)
		gpu.Used = r.kfdUsed(node)
	}
}

const kfdProcesses = "sys/class/kfd/kfd/proc"

// kfdUsed reports whether a process has GPU memory allocated through AMD's KFD driver. The driver has
// a folder for each process.
func (r *reader) kfdUsed(node string) bool {
	processes := r.names(kfdProcesses)
	if len(processes) == 0 {
		return false
	}
	id, _ := r.text(kfdDir + "/" + node + "/gpu_id")
	return slices.ContainsFunc(processes, func(process string) bool {
		bytes, ok := r.number(kfdProcesses + "/" + process + "/vram_" + id)
		return ok && bytes > 0
	})
}

const kfdLinkXGMI = 11 // CRAT_IOLINK_TYPE_XGMI from the kernel's kfd_crat.h

// kfdLinks reads the XGMI links of a KFD node. They connect the GPUs of a hive.
func (r *reader) kfdLinks(node string) []placement.Link {
	byNode := map[string]string{}
	for address, node := range r.kfdNode {
		byNode[node] = address
	}
	counts := map[string]int{}
	dir := kfdDir + "/" + node + "/io_links"
	for _, name := range r.names(dir) {
		properties, _ := r.text(dir + "/" + name + "/properties")
		peer := byNode[strconv.FormatUint(property(properties, "node_to"), 10)]
		if property(properties, "type") == kfdLinkXGMI && peer != "" { // a peer can also be a processor, as on MI300A
			counts[peer]++
		}
	}
	var links []placement.Link
	for _, peer := range slices.Sorted(maps.Keys(counts)) {
		links = append(links, placement.Link{Peer: peer, Kind: "xgmi", Count: counts[peer]})
	}
	return links
}
