package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// assignment is the placement of one rank on a node while it is being decided.
type assignment struct {
	locale CPUSet // CPUs of the object that it is mapped to
	object int    // index of that object among its kind
	gpus   []GPU
	cpus   CPUSet // CPUs that it is bound to; empty means not bound
	reason string
}

// mapping holds the assignments of a node and the objects that they are mapped to.
type mapping struct {
	tree        *tree
	assignments []assignment
	objects     []CPUSet
	// paired keeps the assignments in order regardless of --rank-by: a program uses the GPU of its
	// local rank, and its CPUs must be near that GPU.
	paired bool
}

// target is a device or a part of a machine that ranks are mapped to.
type target struct {
	cpus CPUSet
	gpu  []GPU // the GPUs of one rank if mapped by GPU
	name string
}

// mapTo maps n ranks to the objects of m round-robin: rank j goes to object j modulo their number.
// With ppr the first N ranks go to the first object. A mapping by GPU gives each rank gpusPerRank
// GPUs, at least one.
func (t *tree) mapTo(m MapBy, n int, gpus []GPU, gpusPerRank int) (mapping, error) {
	targets, err := t.targets(m, gpus, gpusPerRank)
	if err != nil {
		return mapping{}, err
	}
	if room := m.PPR * len(targets); m.PPR > 0 && n > room {
		return mapping{}, fmt.Errorf("%s: %s %d on each of %s of %s: %d", m, areMore(n), m.PPR,
			m.Object.noun(len(targets)), t.name, room)
	}
	result := mapping{tree: t}
	for _, p := range targets {
		result.objects = append(result.objects, p.cpus)
	}
	for j := range n {
		object := j % len(targets)
		switch {
		case m.PPR > 0:
			object = j / m.PPR
		case m.Object == ByDistance:
			object = t.fillNearest(j, max(1, m.PE), targets)
		}
		result.assignments = append(result.assignments, assignment{
			locale: targets[object].cpus, object: object, gpus: targets[object].gpu,
			reason: fmt.Sprintf("%s: %s", m, targets[object].name),
		})
	}
	return result, nil
}

// targets returns the objects that m maps to, at least one.
func (t *tree) targets(m MapBy, gpus []GPU, gpusPerRank int) ([]target, error) {
	switch m.Object {
	case ByGPU:
		return t.gpuTargets(m, gpus, max(1, gpusPerRank))
	case ByNIC:
		return t.nicTargets(m)
	case ByDistance:
		return t.distanceTargets(m, gpus)
	}
	sets, err := t.partObjects(m.Object, m.String())
	if err != nil {
		return nil, err
	}
	if m.Count > len(sets) {
		return nil, fmt.Errorf("%s: %s has %s", m, t.name, t.count(m.Object))
	}
	var targets []target
	each := max(m.Count, 1)
	for i := 0; i < len(sets); i += each {
		p := target{name: fmt.Sprintf("%s %d", nouns[cmp.Or(m.Object, ByBoard)], i)}
		for _, set := range sets[i:min(i+each, len(sets))] {
			p.cpus = p.cpus.Union(set)
		}
		if last := min(i+each, len(sets)) - 1; last > i {
			p.name = fmt.Sprintf("%ss %d-%d", nouns[m.Object], i, last)
		}
		targets = append(targets, p)
	}
	return targets, nil
}

// gpuTargets returns the GPUs in consecutive groups of each. A remainder too small for a group is
// unused.
func (t *tree) gpuTargets(m MapBy, gpus []GPU, each int) ([]target, error) {
	switch {
	case len(gpus) == 0:
		return nil, fmt.Errorf("%s: %s has no GPU that may be used", m, t.name)
	case len(gpus) < each:
		return nil, fmt.Errorf("--gpus-per-rank %d: %s has %d that may be used", each, t.name, len(gpus))
	}
	var targets []target
	for group := range slices.Chunk(gpus[:len(gpus)/each*each], each) {
		p := target{gpu: group, name: "GPU " + indexList(group)}
		for _, gpu := range group {
			p.cpus = p.cpus.Union(t.cpusNear(t.numaNode(fmt.Sprintf("GPU %d", gpu.Index), gpu.Bus)))
		}
		targets = append(targets, p)
	}
	return targets, nil
}

// cpusNear returns the usable CPUs of a NUMA node, or all if the node is not known.
func (t *tree) cpusNear(node int) CPUSet {
	if node < 0 {
		return t.all
	}
	return t.nodeCPUs(node)
}

// nicTargets returns the physical network interfaces that are up, only RDMA ones if there are any.
func (t *tree) nicTargets(m MapBy) ([]target, error) {
	var targets, plain []target
	for _, nic := range t.machine.Topology.NICs {
		if !nic.Up || nic.Kind == Virtual || nic.Bus == nil {
			continue
		}
		p := target{cpus: t.cpusNear(t.numaNode(nic.Name, nic.Bus)), name: nic.Name}
		if nic.Kind == Ethernet {
			plain = append(plain, p)
		} else {
			targets = append(targets, p)
		}
	}
	if len(targets) == 0 {
		targets = plain
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%s: %s has no NIC that is up, of %d", m, t.name, len(t.machine.Topology.NICs))
	}
	return targets, nil
}

// distanceTargets returns the NUMA nodes, the nearest to m.Device first.
func (t *tree) distanceTargets(m MapBy, gpus []GPU) ([]target, error) {
	device, bus := t.device(m.Device, gpus)
	if bus == nil {
		return nil, fmt.Errorf("%s: %s has no device %q; it has %s", m, t.name,
			cmp.Or(m.Device, "auto"), t.nicNames())
	}
	node := t.numaNode(device, bus)
	if node < 0 {
		return nil, fmt.Errorf("%s: the NUMA node of %s is unknown on %s", m, device, t.name)
	}
	var targets []target
	for _, id := range t.nearestFirst(node) {
		targets = append(targets, target{cpus: t.nodeCPUs(id), name: fmt.Sprintf("NUMA node %d, from %s", id, device)})
	}
	return targets, nil
}

// device finds a NIC by its own or its interface's name. "gpu" selects the first GPU, and "" the
// first NIC that is up.
func (t *tree) device(name string, gpus []GPU) (string, *Bus) {
	if name == "gpu" && len(gpus) > 0 {
		return fmt.Sprintf("GPU %d", gpus[0].Index), gpus[0].Bus
	}
	for _, nic := range t.machine.Topology.NICs {
		automatic := (name == "" || name == "auto") && nic.Up
		if nic.Bus != nil && (nic.Name == name || nic.Interface == name || automatic) {
			return nic.Name, nic.Bus
		}
	}
	return name, nil
}

func (t *tree) nicNames() string {
	var list []string
	for _, nic := range t.machine.Topology.NICs {
		list = append(list, nic.Name)
	}
	if len(list) == 0 {
		return "no NICs"
	}
	return fmt.Sprint("the NICs ", list)
}

// fillNearest returns the target of rank j if each rank takes each cores of a target before the
// next target is used.
func (t *tree) fillNearest(j, each int, targets []target) int {
	room := 0
	for i, p := range targets {
		if room += t.units(p.cpus, false) / each; j < room {
			return i
		}
	}
	if room == 0 {
		return 0
	}
	return t.fillNearest(j%room, each, targets)
}

// objectOf returns the kind of objects that ranks are numbered over.
func (r RankBy) objectOf(m MapBy) Object {
	if r.Object == AnyObject && r.Order == RoundRobin && (m.PPR > 0 || m.Object == ByDistance) {
		return BySlot
	}
	return cmp.Or(r.Object, m.Object)
}

// order returns the ranks of the job as pairs of node and assignment.
func (r RankBy) order(nodes []mapping, m MapBy) ([][2]int, error) {
	object := r.objectOf(m)
	var stops []stop
	ofNode := make([][]stop, len(nodes))
	for node := range nodes {
		var err error
		if ofNode[node], err = r.stops(node, nodes[node], object, m); err != nil {
			return nil, err
		}
		stops = append(stops, ofNode[node]...)
	}
	w := walk{taken: make([][]bool, len(nodes)), nodes: nodes}
	for node := range nodes {
		w.taken[node] = make([]bool, len(nodes[node].assignments))
	}
	switch {
	case len(stops) == len(nodes) && r.Order != RankSpan && object != ByNode:
		w.numberRest() // one stop per node: keep the order of the assignments
	case r.Order == RankFill:
		for _, s := range stops {
			w.roundRobin([]stop{s})
		}
	case r.Order == RankSpan || object == ByNode:
		w.roundRobin(stops)
	default:
		for _, stops := range ofNode {
			w.roundRobin(stops)
		}
	}
	w.numberRest()
	w.keepPaired()
	return w.ranks, nil
}

// stop is an object that ranks are numbered over.
type stop struct {
	node int
	has  func(assignment) bool
}

func (r RankBy) stops(node int, on mapping, object Object, m MapBy) ([]stop, error) {
	everything := func(assignment) bool { return true }
	device := object == ByGPU || object == ByNIC || object == ByDistance
	switch {
	case device && object != m.Object:
		return nil, fmt.Errorf("%s: ppr counts ranks per %s only with --map-by %s", r, object, object)
	case !device && !object.part() || on.tree == nil: // a nil tree is a node without ranks
		return []stop{{node, everything}}, nil
	}
	sets := on.objects
	if !device {
		var err error
		if sets, err = on.tree.partObjects(object, r.String()); err != nil {
			return nil, err
		}
	}
	stops := make([]stop, len(sets))
	for i, set := range sets {
		stops[i] = stop{node, func(s assignment) bool {
			if object == m.Object {
				return s.object == i
			}
			return s.locale.Intersects(set)
		}}
	}
	return stops, nil
}

// walk visits stops and gives each stop's next assignment the next rank.
type walk struct {
	nodes []mapping
	taken [][]bool // assignments with a rank, by node
	ranks [][2]int
}

// roundRobin looks at each assignment at most once per stop, because there may be many of both.
func (w *walk) roundRobin(stops []stop) {
	next := make([]int, len(stops)) // first unchecked assignment of each stop
	for found := true; found; {
		found = false
		for i, s := range stops {
			assignments, taken := w.nodes[s.node].assignments, w.taken[s.node]
			for next[i] < len(assignments) && (taken[next[i]] || !s.has(assignments[next[i]])) {
				next[i]++
			}
			if next[i] < len(assignments) {
				w.number(s.node, next[i])
				found = true
			}
		}
	}
}

func (w *walk) number(node, assignment int) {
	w.taken[node][assignment] = true
	w.ranks = append(w.ranks, [2]int{node, assignment})
}

// keepPaired restores the order of paired assignments, within the ranks that their node has in the
// job.
func (w *walk) keepPaired() {
	next := make([]int, len(w.nodes))
	for i, at := range w.ranks {
		if w.nodes[at[0]].paired {
			w.ranks[i][1] = next[at[0]]
			next[at[0]]++
		}
	}
}

// numberRest numbers the assignments without a stop. They exist if CPUs are not known to be part of
// any object.
func (w *walk) numberRest() {
	for node, taken := range w.taken {
		for assignment, has := range taken {
			if !has {
				w.number(node, assignment)
			}
		}
	}
}
