package placement

// Layout says where every rank of a job goes.
type Layout struct {
	// Ranks are the ranks in their order: Ranks[3] is rank 3. The ranks of a node
	// are contiguous.
	Ranks []Rank
	// PerNode are the numbers of ranks on the machines, in the machines' order.
	PerNode []int
	// Reason says in one line how many ranks there are and why.
	Reason string
	// Notes are remarks that the user should see, one sentence each.
	Notes []string
}

// Rank is the place of one rank.
type Rank struct {
	Node      int // number of the machine
	LocalRank int // among the ranks of its node
	// GPU is the one that programs take which choose by their local rank; nil
	// where the machine has fewer, or its GPUs were not asked for. gorun hides no
	// other GPU from the rank.
	GPU *GPU
}

// Map assigns every rank to a machine. It reads nothing but its arguments.
func Map(req Request, machines []Machine) (Layout, error) {
	counts, err := Count(req, machines)
	if err != nil {
		return Layout{}, err
	}
	layout := Layout{
		Ranks:   make([]Rank, 0, counts.Total),
		PerNode: counts.PerNode,
		Reason:  counts.Reason,
		Notes:   counts.Notes,
	}
	for node, n := range counts.PerNode {
		gpus, _ := Visible(machines[node].GPUs, req.Visible)
		for local := range n {
			rank := Rank{Node: node, LocalRank: local}
			if local < len(gpus) {
				rank.GPU = &gpus[local]
			}
			layout.Ranks = append(layout.Ranks, rank)
		}
	}
	return layout, nil
}
