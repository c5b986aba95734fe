package pmix

// Forget drops what the ranks of a world have committed, all of which have ended, on every node. Who
// they were stays known: others may have named them in a meeting that is under way.
func (s *Server) Forget(world string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.spaces[world]
	if n == nil {
		return
	}
	s.outputs.drop(func(o piece) bool { return o.source.World == world })
	n.jobReply, n.all = nil, nil // made again if somebody asks
	for rank, m := range n.members {
		switch {
		case len(m.conns)+len(m.waiting)+len(m.leftovers) > 0:
		case m.ended:
			m.data.home, m.data.away, m.data.sent = nil, nil, 0
		case n.world.Ranks[rank].Node != s.cfg.Node:
			delete(n.members, rank)
		}
	}
}
