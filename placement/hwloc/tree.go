package hwloc

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/placement"
)

// kind is an hwloc object type.
type kind string

// The kinds are in nesting order for objects with the same CPUs.
const (
	machine kind = "Machine"
	pack    kind = "Package"
	group   kind = "Group"
	die     kind = "Die"
	l3      kind = "L3Cache"
	l2      kind = "L2Cache"
	l1      kind = "L1Cache"
	core    kind = "Core"
	pu      kind = "PU" // a hardware thread
	node    kind = "NUMANode"
)

var order = []kind{machine, pack, group, die, l3, l2, l1, core, pu}

type object struct {
	kind  kind
	index int // the kernel's number, -1: none
	cpus  placement.CPUSet
	// offline are the offline CPUs. Only the machine object has them.
	offline placement.CPUSet
	// nodes are the NUMA nodes of the object, its descendants and its ancestors.
	nodes      placement.CPUSet
	attributes string
	children   []*object
	memory     []*object // NUMA nodes
	// The allowed part, from the machine's cpuset.
	allowed, allowedNodes placement.CPUSet
}

type tree struct{ root *object }

func newTree(t placement.Topology, d placement.Details) *tree {
	root := &object{
		kind: machine, index: 0, offline: t.Offline, allowed: d.Allowed,
		allowedNodes: t.Memories,
	}
	for _, cpu := range t.CPUs {
		root.cpus = root.cpus.With(cpu.ID)
	}
	if root.allowedNodes.Len() == 0 {
		for _, n := range t.Nodes {
			root.allowedNodes = root.allowedNodes.With(n.ID)
		}
	}
	m := &tree{root}
	for _, o := range parts(t, d) {
		root.insert(o)
	}
	for i, cpus := range nodeCPUs(t.Nodes) {
		m.addNode(t.Nodes[i], cpus)
	}
	return m
}

// parts returns the objects with CPUs. An object precedes the objects inside it.
func parts(t placement.Topology, d placement.Details) []*object {
	packages := objects(pack, t.CPUs, func(c placement.CPU) int { return c.Package }, d.Packages)
	all := slices.Concat(packages,
		slices.DeleteFunc(objects(die, t.CPUs, func(c placement.CPU) int { return c.Die }, d.Dies), func(o *object) bool {
			// Kernels report a die per package or CPU if there are no dies. hwloc omits such dies.
			return o.cpus.Len() == 1 || slices.ContainsFunc(packages, func(p *object) bool { return p.cpus.Equal(o.cpus) })
		}),
		objects(core, t.CPUs, func(c placement.CPU) int { return c.Core }, d.Cores))
	for _, c := range d.Caches {
		all = append(all, cache(c))
	}
	for _, cpu := range t.CPUs {
		o := &object{kind: pu, index: cpu.ID}
		o.cpus = o.cpus.With(cpu.ID)
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b *object) int {
		return cmp.Or(b.cpus.Len()-a.cpus.Len(), slices.Index(order, a.kind)-slices.Index(order, b.kind),
			a.cpus.Min()-b.cpus.Min())
	})
	return all
}

// objects returns the objects of a kind, given the object number of each CPU. The numbers are the
// kernel's.
func objects(k kind, cpus []placement.CPU, number func(placement.CPU) int, numbers map[int]int) (all []*object) {
	byNumber := map[int]*object{}
	for _, cpu := range cpus {
		n := number(cpu)
		if n < 0 {
			continue
		}
		o := byNumber[n]
		if o == nil {
			o = &object{kind: k, index: -1}
			if id, ok := numbers[n]; ok {
				o.index = id
			}
			byNumber[n], all = o, append(all, o)
		}
		o.cpus = o.cpus.With(cpu.ID)
	}
	return all
}

func cache(c placement.Cache) *object {
	use := 1 // for data
	if c.Unified {
		use = 0
	}
	return &object{
		kind: []kind{l1, l2, l3}[c.Level-1], index: c.ID, cpus: c.CPUs,
		attributes: fmt.Sprintf(` cache_size="%d" depth="%d" cache_linesize="%d" cache_associativity="%d" cache_type="%d"`,
			c.Size, c.Level, c.Line, c.Ways, use),
	}
}

// insert adds an object below o, whose CPUs include those of the object. It returns false if the
// object partially overlaps another object.
func (o *object) insert(added *object) bool {
	var within []*object
	for _, child := range o.children {
		switch {
		case added.before(child):
			within = append(within, child)
		case added.cpus.SubsetOf(child.cpus):
			return child.insert(added)
		case child.cpus.Intersects(added.cpus):
			return false
		}
	}
	o.children = slices.DeleteFunc(o.children, func(c *object) bool { return slices.Contains(within, c) })
	added.children = within
	o.children = append(o.children, added)
	slices.SortFunc(o.children, func(a, b *object) int { return a.cpus.Min() - b.cpus.Min() })
	return true
}

// before reports whether another object belongs inside o.
func (o *object) before(other *object) bool {
	if o.cpus.Equal(other.cpus) {
		return slices.Index(order, o.kind) < slices.Index(order, other.kind)
	}
	return other.cpus.SubsetOf(o.cpus)
}

// nodeCPUs returns the CPUs local to each NUMA node. A node without CPUs gets the CPUs of its nearest
// nodes.
func nodeCPUs(nodes []placement.NUMANode) []placement.CPUSet {
	all := make([]placement.CPUSet, len(nodes))
	for i, n := range nodes {
		all[i] = n.CPUs
	}
	for i, n := range nodes {
		if all[i].Len() > 0 || len(n.Distances) != len(nodes) {
			continue
		}
		nearest, cpus, count := -1, placement.CPUSet{}, 0
		for j, d := range n.Distances {
			switch {
			case j == i || nearest >= 0 && d > nearest:
			case d == nearest:
				cpus, count = cpus.Union(all[j]), count+1
			default:
				nearest, cpus, count = d, all[j], 1
			}
		}
		if nearest > n.Distances[i] && count < len(nodes)-1 {
			all[i] = cpus
		}
	}
	return all
}

// addNode attaches a NUMA node to the object with the same CPUs, and creates a group if there is no
// such object. A node without local CPUs gets a separate group without CPUs, below the machine.
func (m *tree) addNode(n placement.NUMANode, cpus placement.CPUSet) {
	o := &object{kind: node, index: n.ID, cpus: cpus, attributes: fmt.Sprintf(` local_memory="%d"`, n.Memory)}
	o.nodes = o.nodes.With(n.ID)
	made := &object{kind: group, index: -1, cpus: cpus, attributes: ` kind="1001" subkind="0"`} // for memory
	parent := m.root.holder(cpus)
	if cpus.Len() == 0 {
		m.root.children = append(m.root.children, made)
		parent = made
	} else if !parent.cpus.Equal(cpus) && m.root.insert(made) {
		parent = made
	}
	parent.memory = append(parent.memory, o)
}

// holder returns the highest object below the machine with exactly these CPUs. Without one, it
// returns the lowest object that contains them.
func (o *object) holder(cpus placement.CPUSet) *object {
	for _, child := range o.children {
		if child.kind != pu && cpus.SubsetOf(child.cpus) {
			if child.cpus.Equal(cpus) {
				return child
			}
			return child.holder(cpus)
		}
	}
	return o
}

// cover sets the NUMA nodes of all objects, given the nodes of the ancestors.
func (o *object) cover(above placement.CPUSet) (below placement.CPUSet) {
	for _, n := range o.memory {
		above, below = above.Union(n.nodes), below.Union(n.nodes)
	}
	for _, child := range o.children {
		below = below.Union(child.cover(above))
	}
	o.nodes = above.Union(below)
	return below
}
