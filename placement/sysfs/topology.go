package sysfs

import (
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// readTopology reads the topology of the node. It requires the GPUs.
func (r *reader) readTopology() {
	t := &placement.Topology{}
	r.machine.Topology = t
	online := r.onlineCPUs()
	if present, ok := r.cpus(cpuDir + "/present"); ok {
		t.Offline = present.Without(online)
	}
	t.Isolated, _ = r.cpus(cpuDir + "/isolated")
	t.Nodes = r.readNodes(online)
	t.CPUs = r.readCPUs(slices.Collect(online.All()), t.Nodes)
	t.Memories = r.memories(t.Nodes)
	for i := range r.machine.GPUs {
		r.describeGPU(&r.machine.GPUs[i])
	}
	if r.needs.NICs {
		r.readNICs()
	}
	t.Virtual = r.isVirtual()
	r.noteUnlocated()
}

// onlineCPUs returns the online CPUs. Some containers show fewer CPUs than they may use.
func (r *reader) onlineCPUs() placement.CPUSet {
	online, ok := r.cpus(cpuDir + "/online")
	if !ok || online.Len() == 0 {
		r.note("the online CPUs are unknown: cannot read /%s/online; gorun assumes the allowed ones", cpuDir)
		return r.machine.CPUs
	}
	if hidden := r.machine.CPUs.Without(online); hidden.Len() > 0 {
		r.note("CPUs %s are allowed, but missing from /%s/online (%s)", hidden, cpuDir, online)
		return online.Union(hidden)
	}
	return online
}

const nodeDir = "sys/devices/system/node"

// readNodes reads the NUMA nodes. The result has at least one node, and every CPU is in a node.
func (r *reader) readNodes(online placement.CPUSet) []placement.NUMANode {
	var nodes []placement.NUMANode
	left := online // CPUs without a node
	for _, id := range r.nodeIDs() {
		dir := nodeDir + "/node" + strconv.Itoa(id)
		node := placement.NUMANode{ID: id, Distances: r.numbers(dir + "/distance")}
		list, _ := r.cpus(dir + "/cpulist")
		node.CPUs = list.Intersection(left)
		left = left.Without(list)
		first, _ := r.text(dir + "/meminfo")
		node.Memory = kibibytes(field(first, "Node "+strconv.Itoa(id)+" MemTotal:"))
		nodes = append(nodes, node)
	}
	if len(nodes) == 0 {
		r.note("NUMA nodes are unknown: cannot read /%s; all CPUs count as one node", nodeDir)
		info, _ := r.text("proc/meminfo")
		return []placement.NUMANode{{CPUs: online, Memory: kibibytes(field(info, "MemTotal:")), Distances: []int{10}}}
	}
	r.checkDistances(nodes)
	if left.Len() > 0 {
		r.note("CPUs %s are in no NUMA node: gorun assumes node %d", left, nodes[0].ID)
		nodes[0].CPUs = nodes[0].CPUs.Union(left)
	}
	return nodes
}

// nodeIDs returns the numbers of the online nodes.
func (r *reader) nodeIDs() []int {
	if set, ok := r.cpus(nodeDir + "/online"); ok && set.Len() > 0 {
		return slices.Collect(set.All())
	}
	var ids []int
	for _, name := range r.names(nodeDir) {
		if rest, ok := strings.CutPrefix(name, "node"); ok {
			if id, err := strconv.ParseUint(rest, 10, 16); err == nil {
				ids = append(ids, int(id))
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// checkDistances removes distances that do not match the nodes.
func (r *reader) checkDistances(nodes []placement.NUMANode) {
	for i := range nodes {
		if n := len(nodes[i].Distances); n != len(nodes) {
			r.note("distances of NUMA node %d are unknown: /%s/node%[1]d/distance has %[3]d numbers for %[4]d nodes",
				nodes[i].ID, nodeDir, n, len(nodes))
			nodes[i].Distances = nil
		}
	}
}

// memories returns the NUMA nodes whose memory this process may use. An empty set means all.
func (r *reader) memories(nodes []placement.NUMANode) placement.CPUSet {
	status, _ := r.text("proc/self/status")
	set, err := placement.ParseCPUSet(field(status, "Mems_allowed_list:"))
	if err != nil {
		r.note("the allowed memory is unknown: /proc/self/status: %v", err)
	}
	var allowed []int
	for _, node := range nodes {
		if set.Has(node.ID) {
			allowed = append(allowed, node.ID)
		}
	}
	if len(allowed) == len(nodes) {
		return placement.CPUSet{}
	}
	return placement.NewCPUSet(allowed...)
}

// isVirtual recognizes the PCI tree of a virtual machine: GPUs or paravirtual interfaces are directly
// below a host bridge.
func (r *reader) isVirtual() bool {
	direct := r.virtio
	for _, bus := range r.buses() {
		if len(bus.Bridges) > 0 {
			return false
		}
	}
	for _, gpu := range r.machine.GPUs {
		direct = direct || gpu.Bus != nil && gpu.Bus.Root != ""
	}
	return direct
}

// buses returns the positions of the GPUs and interfaces.
func (r *reader) buses() []*placement.Bus {
	var all []*placement.Bus
	for _, gpu := range r.machine.GPUs {
		if gpu.Bus != nil {
			all = append(all, gpu.Bus)
		}
	}
	for _, nic := range r.machine.Topology.NICs {
		if nic.Bus != nil {
			all = append(all, nic.Bus)
		}
	}
	return all
}

// noteUnlocated adds a note about devices without a known NUMA node.
func (r *reader) noteUnlocated() {
	var lost []string
	for _, bus := range r.buses() {
		if bus.Node < 0 && !slices.Contains(lost, bus.Address) {
			lost = append(lost, bus.Address)
		}
	}
	switch {
	case len(lost) == 1:
		r.note("the NUMA node of PCI device %s is unknown: the firmware does not report it", lost[0])
	case len(lost) > 1:
		r.note("the NUMA nodes of %d PCI devices (%s …) are unknown: the firmware does not report them", len(lost), lost[0])
	}
}

// cpus reads a file with a list of CPUs or NUMA nodes.
func (r *reader) cpus(name string) (placement.CPUSet, bool) {
	text, ok := r.text(name)
	if !ok {
		return placement.CPUSet{}, false
	}
	set, err := placement.ParseCPUSet(text)
	if err != nil {
		r.note("/%s: %v", name, err)
	}
	return set, err == nil
}

func (r *reader) number(name string) (int, bool) {
	text, ok := r.text(name)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, ok && err == nil
}

// numbers reads a file with numbers separated by spaces. The result is nil if any field is not a
// number.
func (r *reader) numbers(name string) []int {
	text, _ := r.text(name)
	var all []int
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// kibibytes parses "24684084 kB" and returns bytes, or 0 if unknown.
func kibibytes(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return n << 10
}
