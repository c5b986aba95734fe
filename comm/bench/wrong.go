package bench

// wrong compares the output with what the ranks' inputs, reduced in rank order, make of it.
func (t *typed[T]) wrong() (found int64) {
	rank, ranks := t.group.Rank(), t.group.Size()
	switch t.name {
	case "allreduce":
		return t.differ(t.out, t.reduced, 0)
	case "reduce":
		return t.differ(t.out, t.reduced, 0) // which only the root has
	case "reducescatter":
		mine := t.out
		if len(mine) > t.count { // in place
			mine = t.block(t.out, rank)
		}
		return t.differ(mine, t.reduced, rank*t.count)
	case "broadcast":
		return t.differ(t.out, t.patterns[t.root], 0)
	case "allgather", "gather":
		for from := 0; from < ranks && len(t.out) > 0; from++ {
			found += t.differ(t.block(t.out, from), t.patterns[from], 0)
		}
	case "scatter":
		mine := t.out
		if len(mine) > t.count {
			mine = t.block(t.out, rank)
		}
		return t.differ(mine, t.patterns[t.root], rank*t.count)
	case "alltoall":
		for from := range ranks {
			found += t.differ(t.block(t.out, from), t.patterns[from], rank*t.count)
		}
	case "sendrecv":
		return t.differ(t.out, t.patterns[(rank+ranks-1)%ranks], 0)
	case "p2p":
		if rank < 2 {
			return t.differ(t.out, t.patterns[1-rank], 0)
		}
	}
	return found
}

// differ counts the elements that are not those of the pattern from an offset on.
func (t *typed[T]) differ(got, pattern []T, offset int) (wrong int64) {
	at := offset % period
	for i := range got {
		if got[i] != pattern[at] && !t.near(got[i], pattern[at]) {
			wrong++
		}
		if at++; at == period {
			at = 0
		}
	}
	return wrong
}
