package pmi

// turn orders the programs that a rank runs one after the other. MPICH 5 names its shared memory after the world, and
// the last rank to leave it removes it right before it finalizes. A program that began earlier than that would open
// this memory instead of its own, and wait in it for ever.
type turn struct {
	inside  bool         // from the reply to init until the rank finalizes or its connection ends
	awaited map[int]bool // ranks of this node that were inside when this one finalized
	begin   func()       // replies to init, which waits for them
}

// enter has a rank begin MPI. It reports whether the rank may go on at once; otherwise begin is called later.
func (s *space) enter(rank int, begin func()) bool {
	s.leave(rank) // if a program ended without finalizing
	t := s.turns[rank]
	if t == nil {
		t = &turn{}
		s.turns[rank] = t
	}
	if t.inside = len(t.awaited) == 0; !t.inside {
		t.begin = begin
	}
	return t.inside
}

// finalize has a rank leave MPI: its next program waits for the others of this one.
func (s *space) finalize(rank int) {
	awaited := map[int]bool{}
	for other, t := range s.turns {
		if t.inside && other != rank {
			awaited[other] = true
		}
	}
	s.leave(rank)
	s.turns[rank].awaited = awaited
}

// leave has a rank's program end, and begins those that wait for it.
func (s *space) leave(rank int) {
	if t := s.turns[rank]; t != nil {
		t.inside, t.begin = false, nil
	}
	for _, t := range s.turns {
		delete(t.awaited, rank)
		if t.begin != nil && len(t.awaited) == 0 {
			begin := t.begin
			t.inside, t.begin = true, nil
			begin()
		}
	}
}
