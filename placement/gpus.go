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
func (t *tree) home(device string, bus *Bus) int {
	home, stranded := t.nearest(bus)
	if stranded {
		t.strand(device, bus.Node, home)
	}
	return home
}

// nearest is that node, and whether the device's own has no usable CPU.
func (t *tree) nearest(bus *Bus) (home int, stranded bool) {
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

// stranded are devices at a NUMA node without usable CPUs.
type stranded struct {
	node, near int
	devices    []string
}

func (t *tree) strand(device string, node, near int) {
	i := slices.IndexFunc(t.stranded, func(s stranded) bool { return s.node == node })
	if i < 0 {
		i = len(t.stranded)
		t.stranded = append(t.stranded, stranded{node: node, near: near})
	}
	if !slices.Contains(t.stranded[i].devices, device) {
		t.stranded[i].devices = append(t.stranded[i].devices, device)
	}
}

// remarks are the notes about a node, those on stranded devices last.
func (t *tree) remarks() []string {
	notes := t.notes
	for _, s := range t.stranded {
		notes = append(notes,
			fmt.Sprintf("no CPU of NUMA node %d may be used on %s: the ranks of %s run on NUMA node %d, the nearest",
				s.node, t.name, strings.Join(s.devices, ", "), s.near))
	}
	return notes
}

// gpuHomes returns the NUMA nodes at which a rank's GPUs are.
func (t *tree) gpuHomes(gpus []GPU) []int {
	var homes []int
	for _, gpu := range gpus {
		home := t.home(fmt.Sprintf("GPU %d", gpu.Index), gpu.Bus)
		if home >= 0 && !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return homes
}

// nearHomes gives each rank cores of the NUMA nodes that are its homes: each
// node's are shared evenly among its ranks. A rank without a home goes to where
// most room is left. A node that has less than two cores for each of its ranks
// (or less than exact, if that is not 0) borrows from the nearest that has more,
// as far as the whole machine has as many.
//
// There are at least as many cores as ranks, or exact × ranks.
func (t *tree) nearHomes(homes [][]int, exact int) []CPUSet {
	pools := make(map[int][]*core)
	guests := make(map[int][]int) // NUMA node: ranks
	for _, c := range t.cores {
		pools[c.Node] = append(pools[c.Node], c)
	}
	homes = t.settle(homes, exact, pools)
	entries := 0
	for rank, nodes := range homes {
		for _, node := range nodes {
			guests[node] = append(guests[node], rank)
		}
		entries += len(nodes)
	}
	want := 1
	if exact > 0 {
		want = exact
	} else if len(t.cores) >= 2*entries {
		want = 2
	}
	shares := make([]CPUSet, len(homes))
	for _, node := range t.nodes {
		t.borrow(node, want, pools, guests)
	}
	for _, node := range t.nodes {
		ranks := guests[node]
		if len(ranks) == 0 {
			continue
		}
		for i, share := range divide(pools[node], len(ranks), exact) {
			shares[ranks[i]] = shares[ranks[i]].Union(cpusOf(share))
		}
	}
	return shares
}

// settle gives a home to ranks that have none, and leaves one to each rank where
// an exact number of cores is wanted or several homes are more than there are cores.
func (t *tree) settle(homes [][]int, exact int, pools map[int][]*core) [][]int {
	entries := 0
	for _, nodes := range homes {
		entries += max(1, len(nodes))
	}
	settled := make([][]int, len(homes))
	ranks := make(map[int]int)
	for rank, nodes := range homes {
		if len(nodes) > 1 && (exact > 0 || entries > len(t.cores)) {
			nodes = nodes[:1]
		}
		settled[rank] = nodes
		for _, node := range nodes {
			ranks[node]++
		}
	}
	for rank, nodes := range settled {
		if len(nodes) > 0 {
			continue
		}
		roomiest := slices.MaxFunc(t.nodes, func(a, b int) int {
			return cmp.Compare(len(pools[a])*(ranks[b]+1), len(pools[b])*(ranks[a]+1))
		})
		settled[rank] = []int{roomiest}
		ranks[roomiest]++
	}
	return settled
}

// borrow moves cores that others can spare to a node, the nearest others first.
func (t *tree) borrow(node, want int, pools map[int][]*core, guests map[int][]int) {
	missing := want*len(guests[node]) - len(pools[node])
	for _, lender := range t.nearestFirst(node) {
		spare := min(missing, len(pools[lender])-want*len(guests[lender]))
		if lender == node || spare <= 0 {
			continue
		}
		rest := len(pools[lender]) - spare
		pools[node] = append(slices.Clone(pools[node]), pools[lender][rest:]...)
		pools[lender] = pools[lender][:rest]
		missing -= spare
		t.note(fmt.Sprintf("NUMA node %d has too few cores for the %s near to it: they have cores of node %d, too",
			node, plural(len(guests[node]), "rank"), lender))
	}
}
