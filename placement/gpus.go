package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// gpus returns the GPUs of a machine that the job's ranks get, in their order, and
// a remark where some are left out ("" otherwise). What the user's list names and
// the machine lacks is passed over; [Request.checkGPUs] reports it.
func (r Request) gpus(m Machine) (chosen []GPU, remark string) {
	chosen, remark = r.wholeGPUs(m)
	if r.Isolate {
		chosen = instances(chosen)
	}
	return chosen, remark
}

// wholeGPUs are these GPUs, those that are divided as one.
func (r Request) wholeGPUs(m Machine) (chosen []GPU, remark string) {
	visible, remark := Visible(m.GPUs, r.VisibilityOn(m))
	if !r.GPUs.given() {
		return visible, remark
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

// checkGPUs refuses a wish for more GPUs than a node has.
func (r Request) checkGPUs(node, ranks int, m Machine) error {
	visible, remark := Visible(m.GPUs, r.VisibilityOn(m))
	if r.GPUs.given() && ranks > 0 && len(visible) == 0 {
		none := "no GPU"
		if remark != "" {
			none = "no GPU that may be used (" + remark + ")"
		}
		return fmt.Errorf("%s: %s has %s: leave --gpus out to place ranks on CPUs", r.GPUs, r.nodeName(node), none)
	}
	for _, index := range r.GPUs.Indices {
		if ranks > 0 && !slices.ContainsFunc(visible, func(g GPU) bool { return g.Index == index }) {
			return fmt.Errorf("%s: %s has no GPU %d; it has %s%s", r.GPUs, r.nodeName(node), index,
				plural(len(visible), "GPU"), inParentheses(cmp.Or(remark, indexList(visible))))
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
		return fmt.Errorf("%s: %s the %s of %s%s", r.GPUs, areMore(ranks, "rank"), plural(len(gpus), "GPU"), r.nodeName(node),
			inParentheses(r.whyFewer(visible)))
	}
	return nil
}

// whyFewer says of how many visible GPUs the job's are.
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

// home returns the NUMA node with usable CPUs that is nearest to a device; -1
// where nobody knows. A device whose own node has none is remarked on.
func (t *tree) numaNode(device string, bus *Bus) int {
	home, cpulessNode := t.nearest(bus)
	if cpulessNode {
		t.noteCPUless(device, bus.Node, home)
	}
	return home
}

// nearest is that node, and whether the device's own has no usable CPU.
func (t *tree) nearest(bus *Bus) (home int, cpulessNode bool) {
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

// note adds a remark once.
func (t *tree) note(text string) {
	if !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// cpulessNode are devices at a NUMA node without usable CPUs.
type cpulessNode struct {
	node, near int
	devices    []string
}

func (t *tree) noteCPUless(device string, node, near int) {
	i := slices.IndexFunc(t.cpulessNode, func(s cpulessNode) bool { return s.node == node })
	if i < 0 {
		i = len(t.cpulessNode)
		t.cpulessNode = append(t.cpulessNode, cpulessNode{node: node, near: near})
	}
	if !slices.Contains(t.cpulessNode[i].devices, device) {
		t.cpulessNode[i].devices = append(t.cpulessNode[i].devices, device)
	}
}

// allNotes are the notes about a node, those on cpulessNode devices last.
func (t *tree) allNotes() []string {
	notes := t.notes
	for _, s := range t.cpulessNode {
		notes = append(notes,
			fmt.Sprintf("no CPU of NUMA node %d may be used on %s: the ranks of %s run on NUMA node %d, the nearest",
				s.node, t.name, strings.Join(s.devices, ", "), s.near))
	}
	return notes
}

// gpuNodes returns the NUMA nodes at which a rank's GPUs are.
func (t *tree) gpuNodes(gpus []GPU) []int {
	var nodes []int
	for _, gpu := range gpus {
		home := t.numaNode(fmt.Sprintf("GPU %d", gpu.Index), gpu.Bus)
		if home >= 0 && !slices.Contains(nodes, home) {
			nodes = append(nodes, home)
		}
	}
	return nodes
}

// nearNodes gives each rank cores of its NUMA nodes, nodesOf: each
// node's are shared evenly among its ranks. A rank without a home goes to where
// most room is left. A node that has less than two cores for each of its ranks
// (or less than exact, if that is not 0) borrows from the nearest that has more,
// as far as the whole machine has as many.
//
// There are at least as many cores as ranks, or exact × ranks.
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

// assignNodes gives a home to ranks that have none, and leaves one to each rank where
// an exact number of cores is wanted or several homes are more than there are cores.
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

// borrow moves cores that others can spare to a node, the nearest others first.
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
		t.note(fmt.Sprintf("NUMA node %d has too few cores for the %s near to it: they have cores of node %d, too",
			node, plural(len(ranksOn[node]), "rank"), lender))
	}
}
