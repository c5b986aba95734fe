package placement

// Share divides what the ranks of a layout that was merged from several have in common: the GPUs
// that programs select by local rank, and the CPUs of ranks that are not bound. Ranks that are
// mapped to GPUs keep theirs.
func (l *Layout) Share(req Request, machines []Machine) {
	mapping := req.any(func(r Request) bool { return r.MapBy.Object == ByGPU })
	for i := range l.Ranks {
		if !mapping {
			l.Ranks[i].GPUs, l.Ranks[i].GPU = nil, nil
		}
	}
	if !mapping {
		req.pairGPUs(l.Ranks, machines)
	}
	for i := range l.Ranks {
		if rank := &l.Ranks[i]; len(rank.GPUs) > 0 {
			rank.GPU = &rank.GPUs[0]
		}
	}
	ofNode := l.ranksByNode()
	for node, m := range machines {
		l.countThreads(ofNode[node], m)
	}
}
