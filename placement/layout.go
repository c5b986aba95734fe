package placement

import (
	"errors"
	"fmt"
)

// Layout is the placement of all ranks of a job.
type Layout struct {
	// Ranks are the ranks in order: Ranks[3] is rank 3. The ranks of a node are contiguous unless
	// --map-by node or --rank-by changes that.
	Ranks []Rank
	// PerNode are the numbers of ranks on the machines, in the order of the machines.
	PerNode []int
	// Reason explains the number of ranks in one line.
	Reason string
	// Notes are sentences for the user about the placement.
	Notes []string
}

// Rank is the placement of one rank.
type Rank struct {
	Node      int // index of the machine
	LocalRank int // among the ranks of its node
	// GPU is the one that a program takes if it selects its device by local rank; nil if the
	// machine has fewer GPUs or they were not read. The other GPUs stay visible to the rank.
	GPU *GPU
	// GPUs are all GPUs of the rank: GPU, and more with Request.GPUsPerRank.
	GPUs []GPU
	// CPUs are the CPUs that the rank is bound to; empty if it is not bound.
	CPUs CPUSet
	// Memories are the NUMA nodes near the rank's CPUs with memory for it; empty means no
	// preference.
	Memories CPUSet
	// Threads is the number of threads that keeps the rank's CPUs busy without disturbing other
	// ranks (OMP_NUM_THREADS, GOMAXPROCS); 0 if the CPUs are not known.
	Threads int
	// Reason explains the placement in a few words; empty if the topology was not read.
	Reason string
}

// Map assigns every rank to a machine, and to CPUs of that machine if its topology is known. It
// reads nothing but its arguments.
//
// An error names the option, its value and what the machine has.
func Map(req Request, machines []Machine) (Layout, error) {
	if req.RankFile != nil {
		return req.RankFile.layout(req, machines)
	}
	if err := req.checkConflicts(); err != nil {
		return Layout{}, err
	}
	counts, err := Count(req, machines)
	if err != nil {
		return Layout{}, err
	}
	decide, by := req.policy()
	nodes, trees := make([]mapping, len(machines)), forest{}
	for node, n := range counts.PerNode {
		if nodes[node], err = req.assignNode(decide, node, n, machines[node], &trees); err != nil {
			return Layout{}, err
		}
	}
	order, err := req.RankBy.order(nodes, by)
	if err != nil {
		return Layout{}, err
	}
	layout := Layout{
		Ranks:   ranksOf(order, nodes),
		PerNode: counts.PerNode,
		Reason:  counts.Reason,
		Notes:   counts.Notes,
	}
	if by.Object != ByGPU {
		req.pairGPUs(layout.Ranks, machines)
	}
	if err := req.finish(&layout, nodes, machines); err != nil {
		return Layout{}, err
	}
	layout.Notes = append(layout.Notes, req.oversubscriptionNotes(counts.PerNode, machines)...)
	return layout, nil
}

// assignNode assigns the n ranks of one node. If its topology is not known, the assignments have no
// CPUs, which is an error if the request asks for a placement.
func (r Request) assignNode(decide policy, node, n int, m Machine, trees *forest) (mapping, error) {
	if err := errors.Join(r.checkGPUs(node, n, m), r.checkSubscription(node, n, m)); err != nil {
		return mapping{}, err
	}
	gpus, _ := r.gpus(m)
	if m.Topology == nil || n == 0 {
		if r.Places() && n > 0 {
			return mapping{}, fmt.Errorf("%s: the topology of %s is unknown", r.placementOption(), r.nodeName(node))
		}
		return r.unassigned(nil, n, gpus), nil
	}
	t := trees.tree(r.nodeName(node), m)
	if len(t.cores) == 0 {
		if r.Places() {
			return mapping{}, fmt.Errorf("%s: the usable CPUs of %s are unknown", r.placementOption(), r.nodeName(node))
		}
		return r.unassigned(t, n, gpus), nil
	}
	return decide(t, n, gpus)
}

// oversubscriptionNotes returns notes about nodes that have more ranks than CPUs and whose topology
// was not read. Their ranks would not be bound with any topology.
func (r Request) oversubscriptionNotes(perNode []int, machines []Machine) (notes []string) {
	type overfull struct{ ranks, cpus, node int }
	var all []overfull
	for node, m := range machines {
		if cpus := m.CPUs.Len(); m.Topology == nil && cpus > 0 && perNode[node] > cpus && r.NeedsTopology() {
			all = append(all, overfull{perNode[node], cpus, node})
		}
	}
	for _, same := range groupBy(all, func(c overfull) [2]int { return [2]int{c.ranks, c.cpus} }) {
		c, where := same[0], ""
		switch {
		case len(same) > 1:
			where = " on each of " + plural(len(same), "node")
		case len(machines) > 1:
			where = " on " + r.nodeName(c.node)
		}
		notes = append(notes, oversubscribed(plural(c.ranks, "rank"), plural(c.cpus, "CPU")+where))
	}
	return notes
}

func oversubscribed(ranks, cpus string) string {
	return fmt.Sprintf("%s share %s, so no rank is bound to CPUs", ranks, cpus)
}

// checkSubscription rejects more ranks than CPUs or slots if that is forbidden.
func (r Request) checkSubscription(node, n int, m Machine) error {
	cpus := m.CPUs.Len()
	switch {
	case !r.MapBy.NoOversubscribe:
		return nil
	case cpus > 0 && n > cpus:
		return fmt.Errorf("%s: %s the %s of %s", r.MapBy, areMore(n), plural(cpus, "CPU"), r.nodeName(node))
	case r.hasSlots() && n > r.slots(node):
		return fmt.Errorf("%s: %s the %s of %s%s", r.MapBy, areMore(n), plural(r.slots(node), "slot"),
			r.nodeName(node), inParentheses(r.SlotsFrom))
	}
	return nil
}

// placementOption returns the option that asks for a placement, as the user wrote it.
func (r Request) placementOption() string {
	switch {
	case r.NUMABinding != "":
		return "--numa-binding " + string(r.NUMABinding)
	case r.MapBy.Object != AnyObject:
		return r.MapBy.String()
	case r.BindTo.Given:
		return r.BindTo.String()
	case r.CPUsPerRank > 0:
		return fmt.Sprintf("--cpus-per-rank %d", r.CPUsPerRank)
	}
	return r.RankBy.String()
}

// ranksOf numbers the assignments in the given order.
func ranksOf(order [][2]int, nodes []mapping) []Rank {
	ranks := make([]Rank, 0, len(order))
	locals := make([]int, len(nodes))
	for _, at := range order {
		node, s := at[0], nodes[at[0]].assignments[at[1]]
		rank := Rank{Node: node, LocalRank: locals[node], GPUs: s.gpus, CPUs: s.cpus, Reason: s.reason}
		locals[node]++
		ranks = append(ranks, rank)
	}
	return ranks
}

// pairGPUs gives ranks the GPUs of their local ranks. It must not follow a mapping by GPU.
func (r Request) pairGPUs(ranks []Rank, machines []Machine) {
	gpus := r.gpusByNode(machines)
	for i := range ranks {
		if len(ranks[i].GPUs) == 0 {
			ranks[i].GPUs = r.gpusOf(ranks[i].LocalRank, gpus[ranks[i].Node])
		}
	}
}

// finish checks the ranks' GPUs, derives the remaining fields, and adds the notes about the placement.
func (r Request) finish(l *Layout, nodes []mapping, machines []Machine) error {
	if err := r.checkIsolation(l.Ranks, machines); err != nil {
		return err
	}
	l.derive(nodes, machines)
	l.Notes = append(l.Notes, r.gpuNotes(l.Ranks, nodes, machines)...)
	return nil
}

// derive derives the remaining fields from the ranks' placement.
func (l *Layout) derive(nodes []mapping, machines []Machine) {
	for i := range l.Ranks {
		rank := &l.Ranks[i]
		if len(rank.GPUs) > 0 {
			rank.GPU = &rank.GPUs[0]
		}
		if t := nodes[rank.Node].tree; t != nil && rank.CPUs.Len() > 0 {
			rank.Memories = t.memories(rank.CPUs)
		}
	}
	ofNode := l.ranksByNode()
	seen := make(map[string]bool)
	for _, note := range l.Notes {
		seen[note] = true
	}
	for node, m := range machines {
		l.countThreads(ofNode[node], m)
		if t := nodes[node].tree; t != nil {
			for _, note := range t.allNotes() {
				if !seen[note] {
					l.Notes = append(l.Notes, note)
				}
				seen[note] = true
			}
		}
	}
}

// ranksByNode returns the ranks of each node. One array backs all rows.
func (l *Layout) ranksByNode() [][]int {
	rows, all := make([][]int, len(l.PerNode)), make([]int, len(l.Ranks))
	for node, n := range l.PerNode {
		rows[node], all = all[:0:n], all[n:]
	}
	for i := range l.Ranks {
		node := l.Ranks[i].Node
		rows[node] = append(rows[node], i)
	}
	return rows
}

// countThreads gives each rank of a node as many threads as it has CPUs. Ranks that are bound to
// the same CPU divide it, and no rank exceeds its part of the quota.
func (l *Layout) countThreads(ranks []int, m Machine) {
	var bound CPUSet
	for _, i := range ranks {
		bound = bound.Union(l.Ranks[i].CPUs)
	}
	busy := make([]int, 64*len(bound.words)) // number of ranks bound to each CPU
	for _, i := range ranks {
		for cpu := range l.Ranks[i].CPUs.All() {
			busy[cpu]++
		}
	}
	each := ThreadsPerRank(m, len(ranks))
	for _, i := range ranks {
		rank := &l.Ranks[i]
		rank.Threads = each
		if rank.CPUs.Len() == 0 {
			continue
		}
		share := 0.0
		for cpu := range rank.CPUs.All() {
			share += 1 / float64(busy[cpu])
		}
		threads := int(share + 1e-9)
		if m.Quota > 0 {
			threads = min(threads, int(m.Quota/float64(len(ranks))))
		}
		rank.Threads = max(1, threads)
	}
}
