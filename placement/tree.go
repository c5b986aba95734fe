package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// tree is the part of a machine that the ranks of a node may use, in hwloc's logical order.
type tree struct {
	machine Machine
	name    string // name of the machine, for messages
	cpus    []CPU
	all     CPUSet
	cores   []*core
	nodes   []int    // NUMA nodes with usable CPUs, in logical order
	onNode  []CPUSet // their usable CPUs
	notes   []string

	cpulessNodes []cpulessNode
}

// core is the usable part of one core.
type core struct {
	cpus CPUSet
	CPU  // the first CPU: tells which objects the core is part of
}

// newTree reads a machine. It leaves out isolated CPUs unless no others are allowed: the kernel
// does not move processes off the isolated CPU that they start on.
func newTree(name string, m Machine) *tree {
	t := &tree{machine: m, name: name}
	allowed := m.CPUs
	if general := allowed.Without(m.Topology.Isolated); general.Len() > 0 {
		allowed = general
	} else if allowed.Len() > 0 {
		t.notes = append(t.notes, fmt.Sprintf("only isolated CPUs are allowed on %s (%s): ranks go there", name, allowed))
	}
	var all []int
	for _, cpu := range m.Topology.CPUs {
		if allowed.Has(cpu.ID) {
			t.cpus = append(t.cpus, cpu)
			all = append(all, cpu.ID)
		}
	}
	t.all = NewCPUSet(all...)
	slices.SortStableFunc(t.cpus, func(a, b CPU) int {
		if a.Core < 0 || b.Core < 0 {
			return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.ID, b.ID))
	})
	t.findCores()
	for _, group := range groupBy(t.cores, func(c *core) int { return c.Node }) {
		t.nodes, t.onNode = append(t.nodes, group[0].Node), append(t.onNode, cpusOf(group))
	}
	return t
}

// forest makes trees of machines. A machine that equals the previous one, as usual in a cluster,
// shares its tree.
type forest struct{ last *tree }

func (f *forest) tree(name string, m Machine) *tree {
	if f.last == nil || f.last.machine.Topology != m.Topology || !f.last.machine.CPUs.Equal(m.CPUs) ||
		len(f.last.notes) > 0 {
		last := *newTree(name, m)
		f.last = &last
	}
	t := *f.last
	t.machine, t.name = m, name
	return &t
}

func (t *tree) findCores() {
	for _, cpus := range groupBy(t.cpus, CPU.core) {
		c := &core{CPU: cpus[0]}
		for _, cpu := range cpus {
			c.cpus = c.cpus.With(cpu.ID)
		}
		t.cores = append(t.cores, c)
	}
}

// key returns the number of the object of a kind that a CPU is part of, or -1 if it is not known.
func (c CPU) key(kind Object) int {
	switch kind {
	case ByPackage:
		return c.Package
	case ByNUMA:
		return c.Node
	case ByL3:
		return c.L3
	case ByL2:
		return c.L2
	}
	return 0
}

// objects returns the CPUs of each object of a kind, in logical order; none if the kind is not
// known. A CPU may be in no object: some processors have cores without the large cache of the
// others.
func (t *tree) objects(kind Object) []CPUSet {
	switch kind {
	case ByCore:
		return coreSets(t.cores)
	case ByThread:
		sets := make([]CPUSet, len(t.cpus))
		for i, cpu := range t.cpus {
			sets[i] = NewCPUSet(cpu.ID)
		}
		return sets
	case ByPackage, ByNUMA, ByL3, ByL2:
		known := slices.DeleteFunc(slices.Clone(t.cores), func(c *core) bool { return c.key(kind) < 0 })
		return shareSets(groupBy(known, func(c *core) int { return c.key(kind) }))
	}
	return []CPUSet{t.all}
}

// partObjects is objects, but fails if none exist.
func (t *tree) partObjects(kind Object, option string) ([]CPUSet, error) {
	sets := t.objects(kind)
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: %s has no %s; it has %s, %s, %s, %s", option, t.name, nouns[kind]+"s",
			t.count(ByPackage), t.count(ByNUMA), t.count(ByCore), t.count(ByThread))
	}
	return sets, nil
}

// count formats the number of usable objects of a kind: "2 packages".
func (t *tree) count(kind Object) string { return kind.noun(len(t.objects(kind))) }

// coresIn returns the cores with a CPU in set, in logical order.
func (t *tree) coresIn(set CPUSet) []*core {
	var cores []*core
	for _, c := range t.cores {
		if c.cpus.Intersects(set) {
			cores = append(cores, c)
		}
	}
	return cores
}

// units returns the number of cores or hardware threads in set. A core counts only if all of it is
// in set.
func (t *tree) units(set CPUSet, threads bool) int {
	if threads {
		return set.Len()
	}
	n := 0
	for _, c := range t.cores {
		if c.cpus.SubsetOf(set) {
			n++
		}
	}
	return n
}

// nodeCPUs returns the usable CPUs of a NUMA node.
func (t *tree) nodeCPUs(id int) CPUSet {
	if i := slices.Index(t.nodes, id); i >= 0 {
		return t.onNode[i]
	}
	return CPUSet{}
}

// nearestFirst returns the NUMA nodes with usable CPUs by their distance to a node, and those at
// equal distance in logical order.
func (t *tree) nearestFirst(id int) []int {
	nodes := slices.Clone(t.nodes)
	from := t.machine.Topology.Node(id)
	far := func(other int) int {
		at := slices.IndexFunc(t.machine.Topology.Nodes, func(n NUMANode) bool { return n.ID == other })
		switch {
		case other == id:
			return 0
		case from == nil || at < 0 || at >= len(from.Distances):
			return 1 << 20
		}
		return from.Distances[at]
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(far(a), far(b)) })
	return nodes
}

// memories returns the NUMA nodes of a set of CPUs whose memory this job may use.
func (t *tree) memories(set CPUSet) CPUSet {
	allowed := t.machine.Topology.Memories
	var nodes []int
	for _, c := range t.cores {
		if c.Node < 0 || !c.cpus.Intersects(set) || slices.Contains(nodes, c.Node) {
			continue
		}
		node := t.machine.Topology.Node(c.Node)
		if node != nil && node.Memory > 0 && (allowed.Len() == 0 || allowed.Has(c.Node)) {
			nodes = append(nodes, c.Node)
		}
	}
	return NewCPUSet(nodes...)
}

// Memories returns the NUMA nodes that have CPUs and memory for this job: those of a rank that is
// not bound. It is empty if the topology is not known.
func (m Machine) Memories() CPUSet {
	if m.Topology == nil {
		return CPUSet{}
	}
	t := newTree(numbered(0), m)
	return t.memories(t.all)
}

// groupBy groups items by key. Groups and their members keep the order of first appearance.
func groupBy[T any, K comparable](items []T, key func(T) K) [][]T {
	at := make(map[K]int)
	var groups [][]T
	for _, item := range items {
		k := key(item)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return groups
}

func cpusOf(cores []*core) CPUSet { return CPUSet{}.Union(coreSets(cores)...) }

// shareSets returns the CPUs of each group of cores.
func shareSets(shares [][]*core) []CPUSet {
	sets := make([]CPUSet, len(shares))
	for i, share := range shares {
		sets[i] = cpusOf(share)
	}
	return sets
}

func coreSets(cores []*core) []CPUSet {
	sets := make([]CPUSet, len(cores))
	for i, c := range cores {
		sets[i] = c.cpus
	}
	return sets
}
