package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// gpus returns the GPUs of a machine that the job's ranks use, in order, and a note if some are
// left out. It skips GPUs that the user listed and the machine lacks; [Request.checkGPUs] reports
// them.
func (r Request) gpus(m Machine) (chosen []GPU, note string) {
	chosen, note = r.wholeGPUs(m)
	if r.Isolate {
		chosen = instances(chosen)
	}
	return chosen, note
}

// gpusByNode returns the GPUs that the ranks of each machine use.
func (r Request) gpusByNode(machines []Machine) [][]GPU {
	gpus := make([][]GPU, len(machines))
	for node, m := range machines {
		gpus[node], _ = r.gpus(m)
	}
	return gpus
}

// wholeGPUs is gpus with each divided GPU counted as one.
func (r Request) wholeGPUs(m Machine) (chosen []GPU, note string) {
	visible, note := Visible(m.GPUs, r.VisibilityOn(m))
	if !r.GPUs.given() {
		return visible, note
	}
	if r.GPUs.Free {
		for _, gpu := range visible {
			if !gpu.Used {
				chosen = append(chosen, gpu)
			}
		}
		return chosen, r.GPUs.String()
	}
	for _, index := range r.GPUs.Indices {
		if i := slices.IndexFunc(visible, func(g GPU) bool { return g.Index == index }); i >= 0 {
			chosen = append(chosen, visible[i])
		}
	}
	return chosen, r.GPUs.String()
}

// checkGPUs rejects a request for more GPUs than a node has.
func (r Request) checkGPUs(node, ranks int, m Machine) error {
	visible, note := Visible(m.GPUs, r.VisibilityOn(m))
	if r.GPUs.given() && ranks > 0 && len(visible) == 0 {
		none := "no GPU"
		if note != "" {
			none = "no GPU that may be used (" + note + ")"
		}
		return fmt.Errorf("%s: %s has %s: leave --gpus out to place ranks on CPUs", r.GPUs, r.nodeName(node), none)
	}
	for _, index := range r.GPUs.Indices {
		if ranks > 0 && !slices.ContainsFunc(visible, func(g GPU) bool { return g.Index == index }) {
			return fmt.Errorf("%s: %s has no GPU %d; it has %s%s", r.GPUs, r.nodeName(node), index,
				plural(len(visible), "GPU"), inParentheses(cmp.Or(note, indexList(visible))))
		}
	}
	gpus, _ := r.gpus(m)
	if r.GPUs.Free && ranks > 0 && len(gpus) == 0 {
		return fmt.Errorf("%s: none of the %s of %s is free", r.GPUs, plural(len(visible), "GPU"), r.nodeName(node))
	}
	if need := ranks * r.GPUsPerRank; need > len(gpus) {
		return fmt.Errorf("--gpus-per-rank %d: %s × %d %s %s, %s has %d%s", r.GPUsPerRank, plural(ranks, "rank"),
			r.GPUsPerRank, verb(need), plural(need, "GPU"), r.nodeName(node), len(gpus), inParentheses(r.whyFewer(visible)))
	}
	if r.GPUs.given() && r.GPUsPerRank == 0 && ranks > len(gpus) && r.MapBy.Object != ByGPU {
		return fmt.Errorf("%s: %s the %s of %s%s", r.GPUs, areMore(ranks), plural(len(gpus), "GPU"), r.nodeName(node),
			inParentheses(r.whyFewer(visible)))
	}
	return nil
}

// whyFewer says how many visible GPUs the job's GPUs were chosen from.
func (r Request) whyFewer(visible []GPU) string {
	if !r.GPUs.given() {
		return ""
	}
	if r.GPUs.Free {
		return fmt.Sprintf("free ones of %d", len(visible))
	}
	return fmt.Sprintf("of %d", len(visible))
}

func indexList(gpus []GPU) string {
	var indices []int
	for _, gpu := range gpus {
		if gpu.Index >= 0 {
			indices = append(indices, gpu.Index)
		}
	}
	return NewCPUSet(indices...).String()
}

// gpusOf returns the GPUs of a local rank.
func (r Request) gpusOf(local int, gpus []GPU) []GPU {
	each := max(1, r.GPUsPerRank)
	if (local+1)*each > len(gpus) {
		return nil
	}
	return gpus[local*each : (local+1)*each]
}

// numaNode returns the NUMA node with usable CPUs that is nearest to a device, or -1 if it is not
// known. It adds a note if the device's own node has no usable CPU.
func (t *tree) numaNode(device string, bus *Bus) int {
	near, cpuless := t.nearest(bus)
	if cpuless {
		t.noteCPUless(device, bus.Node, near)
	}
	return near
}

// nearest is numaNode without the note; cpuless reports whether the device's own node has no usable
// CPU.
func (t *tree) nearest(bus *Bus) (near int, cpuless bool) {
	switch {
	case bus == nil:
		return -1, false
	case bus.Node >= 0 && t.nodeCPUs(bus.Node).Len() > 0:
		return bus.Node, false
	case bus.Node >= 0 && t.machine.Topology.Node(bus.Node) != nil:
		return t.nearestFirst(bus.Node)[0], true
	}
	for _, c := range t.cores {
		if c.cpus.Intersects(bus.Near) {
			return c.Node, false
		}
	}
	return -1, false
}

// note adds a note unless it is already there.
func (t *tree) note(text string) {
	if !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// cpulessNode is a NUMA node without usable CPUs that has devices.
type cpulessNode struct {
	node, near int
	devices    []string
}

func (t *tree) noteCPUless(device string, node, near int) {
	i := slices.IndexFunc(t.cpulessNodes, func(s cpulessNode) bool { return s.node == node })
	if i < 0 {
		i = len(t.cpulessNodes)
		t.cpulessNodes = append(t.cpulessNodes, cpulessNode{node: node, near: near})
	}
	if !slices.Contains(t.cpulessNodes[i].devices, device) {
		t.cpulessNodes[i].devices = append(t.cpulessNodes[i].devices, device)
	}
}

// allNotes returns the notes about the machine, those about NUMA nodes without usable CPUs last.
func (t *tree) allNotes() []string {
	notes := t.notes
	for _, s := range t.cpulessNodes {
		notes = append(notes,
			fmt.Sprintf("you may use no CPU of NUMA node %d on %s: the ranks of %s run on NUMA node %d, the nearest",
				s.node, t.name, strings.Join(s.devices, ", "), s.near))
	}
	return notes
}

// gpuNodes returns the NUMA nodes of a rank's GPUs.
func (t *tree) gpuNodes(gpus []GPU) []int {
	var nodes []int
	for _, gpu := range gpus {
		near := t.numaNode(fmt.Sprintf("GPU %d", gpu.Index), gpu.Bus)
		if near >= 0 && !slices.Contains(nodes, near) {
			nodes = append(nodes, near)
		}
	}
	return nodes
}

// nearNodes divides the cores of each NUMA node evenly among its ranks, which nodesOf lists. A rank
// without a node gets the one with the most room. A node with fewer than two cores per rank (or
// fewer than exact, unless that is 0) borrows from the nearest node that has more, as far as the
// machine has enough cores.
//
// The machine must have at least one core per rank, or exact cores per rank.
func (t *tree) nearNodes(nodesOf [][]int, exact int) []CPUSet {
	pools := make(map[int][]*core)
	ranksOn := make(map[int][]int) // NUMA node: ranks
	for _, c := range t.cores {
		pools[c.Node] = append(pools[c.Node], c)
	}
	nodesOf = t.assignNodes(nodesOf, exact, pools)
	entries := 0
	for rank, nodes := range nodesOf {
		for _, node := range nodes {
			ranksOn[node] = append(ranksOn[node], rank)
		}
		entries += len(nodes)
	}
	want := 1
	if exact > 0 {
		want = exact
	} else if len(t.cores) >= 2*entries {
		want = 2
	}
	shares := make([]CPUSet, len(nodesOf))
	for _, node := range t.nodes {
		t.borrow(node, want, pools, ranksOn)
	}
	for _, node := range t.nodes {
		ranks := ranksOn[node]
		if len(ranks) == 0 {
			continue
		}
		for i, share := range divide(pools[node], len(ranks), exact) {
			shares[ranks[i]] = shares[ranks[i]].Union(cpusOf(share))
		}
	}
	return shares
}

// assignNodes gives a node to ranks that have none. It leaves each rank a single node if exact is
// set or if the machine has too few cores for several.
func (t *tree) assignNodes(nodesOf [][]int, exact int, pools map[int][]*core) [][]int {
	entries := 0
	for _, nodes := range nodesOf {
		entries += max(1, len(nodes))
	}
	assigned := make([][]int, len(nodesOf))
	ranks := make(map[int]int)
	for rank, nodes := range nodesOf {
		if len(nodes) > 1 && (exact > 0 || entries > len(t.cores)) {
			nodes = nodes[:1]
		}
		assigned[rank] = nodes
		for _, node := range nodes {
			ranks[node]++
		}
	}
	for rank, nodes := range assigned {
		if len(nodes) > 0 {
			continue
		}
		roomiest := slices.MaxFunc(t.nodes, func(a, b int) int {
			return cmp.Compare(len(pools[a])*(ranks[b]+1), len(pools[b])*(ranks[a]+1))
		})
		assigned[rank] = []int{roomiest}
		ranks[roomiest]++
	}
	return assigned
}

// borrow moves cores that other nodes can spare to a node, from the nearest first.
func (t *tree) borrow(node, want int, pools map[int][]*core, ranksOn map[int][]int) {
	missing := want*len(ranksOn[node]) - len(pools[node])
	for _, lender := range t.nearestFirst(node) {
		spare := min(missing, len(pools[lender])-want*len(ranksOn[lender]))
		if lender == node || spare <= 0 {
			continue
		}
		rest := len(pools[lender]) - spare
		pools[node] = append(slices.Clone(pools[node]), pools[lender][rest:]...)
		pools[lender] = pools[lender][:rest]
		missing -= spare
		t.note(fmt.Sprintf("NUMA node %d has too few cores for the %s near it: they also use cores of node %d",
			node, plural(len(ranksOn[node]), "rank"), lender))
	}
}
