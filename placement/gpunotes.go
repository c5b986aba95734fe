package placement

import (
	"fmt"
	"slices"
	"strings"
)

// gpuNotes returns notes about ranks that the user's options keep from their GPUs: ranks bound to
// CPUs far from a GPU of theirs, and ranks with other GPUs than LOCAL_RANK selects. Gorun's own
// policies, whose assignments are paired, do neither unless the machine leaves no choice.
func (r Request) gpuNotes(ranks []Rank, nodes []mapping, machines []Machine) (notes []string) {
	if note := r.farNote(ranks, nodes); note != "" {
		notes = append(notes, note)
	}
	if note := r.orderNote(ranks, machines); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// farRank is a rank with the NUMA nodes of its CPUs (on) and of its GPUs (nodes).
type farRank struct {
	rank      int
	on, nodes CPUSet
	several   bool // has more than one GPU
}

// maxFarGroups limits the groups that a note lists.
const maxFarGroups = 3

// farNote returns the note about ranks that are bound far from their GPUs.
func (r Request) farNote(ranks []Rank, nodes []mapping) string {
	if r.RankFile == nil && r.MapBy.Object == ByGPU && len(r.BindTo.Lists) == 0 {
		return "" // they are as near as the room allows
	}
	var all []farRank
	for i, rank := range ranks {
		t := nodes[rank.Node].tree
		if t == nil || nodes[rank.Node].paired || rank.CPUs.Len() == 0 {
			continue
		}
		if a := (farRank{i, t.nodesOf(rank.CPUs), t.knownGPUNodes(rank.GPUs), len(rank.GPUs) > 1}); !a.nodes.SubsetOf(a.on) {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return ""
	}
	groups := groupBy(all, func(a farRank) string { return fmt.Sprint(a.on, " ", a.nodes, a.several) })
	var texts []string
	for i, group := range groups {
		if i == maxFarGroups {
			more := slices.Concat(groups[i:]...)
			texts = append(texts, "and so on for "+plural(len(more), "more rank"))
			break
		}
		texts = append(texts, describeFar(group))
	}
	option, better := r.remedy()
	return fmt.Sprintf("%s places ranks away from their GPUs: %s; %s", option, strings.Join(texts, ", "), better)
}

// describeFar describes ranks that have the same NUMA nodes.
func describeFar(group []farRank) string {
	ranks := make([]int, len(group))
	for i, a := range group {
		ranks[i] = a.rank
	}
	a, verb, gpu := group[0], "is", "its GPU"
	switch {
	case a.several && len(ranks) == 1:
		gpu = "its GPUs"
	case len(ranks) > 1:
		verb, gpu = "are", "their GPUs"
	}
	return fmt.Sprintf("%s %s on NUMA %s, %s on %s", rankList(ranks), verb, nodeList(a.on.String()), gpu, a.nodes)
}

// rankList formats ranks as "rank 1" or "ranks 1,3-5".
func rankList(ranks []int) string {
	noun := "rank "
	if len(ranks) > 1 {
		noun = "ranks "
	}
	return noun + NewCPUSet(ranks...).String()
}

// nodeList formats a list as "node 1" or "nodes 0-1".
func nodeList(list string) string {
	if strings.ContainsAny(list, ",-") {
		return "nodes " + list
	}
	return "node " + list
}

// remedy returns the option that keeps ranks from their GPUs, and how to have them near.
func (r Request) remedy() (option, better string) {
	switch {
	case r.RankFile != nil:
		return r.RankFile.From, "without it they are near"
	case len(r.BindTo.Lists) > 0:
		return r.BindTo.String(), "without it they are near"
	}
	return r.placementOption(), MapBy{Object: ByGPU, PE: r.MapBy.PE}.String() + " places them near their GPUs"
}

// orderNote returns the note about ranks whose GPUs differ from those that LOCAL_RANK selects. With
// more ranks than GPUs, programs start again from the first GPU.
func (r Request) orderNote(ranks []Rank, machines []Machine) string {
	if r.Isolate { // a program sees only its own GPUs
		return ""
	}
	var others []int
	var example string
	gpus := r.gpusByNode(machines)
	for i, rank := range ranks {
		targets := len(gpus[rank.Node]) / max(1, len(rank.GPUs))
		if len(rank.GPUs) == 0 || targets == 0 {
			continue
		}
		taken := r.gpusOf(rank.LocalRank%targets, gpus[rank.Node])
		if slices.EqualFunc(taken, rank.GPUs, GPU.is) {
			continue
		}
		if len(others) == 0 {
			example = fmt.Sprintf("rank %d has GPU %s, not %s", i, indexList(rank.GPUs), indexList(taken))
		}
		others = append(others, i)
	}
	if len(others) == 0 {
		return ""
	}
	option := r.MapBy.String()
	if (r.RankBy != RankBy{}) {
		option = r.RankBy.String()
	}
	return fmt.Sprintf("%s gives %s other GPUs than those that LOCAL_RANK selects (%s): if your program uses "+
		"LOCAL_RANK, add `--isolate-gpus --virtual-local-rank`",
		option, rankList(others), example)
}

// nodesOf returns the NUMA nodes of a set of CPUs.
func (t *tree) nodesOf(set CPUSet) CPUSet {
	var nodes []int
	for i, id := range t.nodes {
		if id >= 0 && t.onNode[i].Intersects(set) {
			nodes = append(nodes, id)
		}
	}
	return NewCPUSet(nodes...)
}

// knownGPUNodes returns the NUMA nodes with usable CPUs that are nearest to gpus, as far as known.
func (t *tree) knownGPUNodes(gpus []GPU) CPUSet {
	var nodes []int
	for _, gpu := range gpus {
		if node, _ := t.nearest(gpu.Bus); node >= 0 {
			nodes = append(nodes, node)
		}
	}
	return NewCPUSet(nodes...)
}
