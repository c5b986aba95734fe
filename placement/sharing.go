package placement

// Share divides what the ranks of a layout that was merged from several have in common: the GPUs
// that programs select by local rank, and the CPUs of ranks that are not bound. Ranks that are
// mapped to GPUs keep theirs.
func (l *Layout) Share(req Request, machines []Machine) {
	byGPU := req.any(func(r Request) bool { return r.MapBy.Object == ByGPU })
	if !byGPU {
		for i := range l.Ranks {
			l.Ranks[i].GPUs, l.Ranks[i].GPU = nil, nil
		}
		req.pairGPUs(l.Ranks, machines)
	}
	l.derive(make([]mapping, len(machines)), machines)
}
