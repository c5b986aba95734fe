package pmi

import "gorun/rendezvous/world"

// Waits says which ranks of this node wait now, and for whom: in barriers, for attributes
// of their host, and for ranks that they spawn.
func (s *Server) Waits() (list []world.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		for _, b := range sp.barriers {
			if len(b.came) > 0 {
				missing := sp.procsOf(b.local, func(rank int) bool { return b.came[rank] == nil })
				list = append(list, world.Wait{Waiting: sp.procs(b.came), For: missing})
			}
			if len(b.away) > 0 {
				list = append(list, world.Wait{Waiting: sp.procs(b.away)})
			}
		}
		for _, rank := range sp.attributeWaiters() {
			// Whoever is on their host may put them, as far as they are on this node and run.
			putters := sp.procsOf(sp.peers(rank), func(peer int) bool { return sp.isHere(peer) && !sp.ended[peer] })
			if sp.isHere(rank) && !sp.ended[rank] {
				list = append(list, world.Wait{Waiting: []world.Proc{sp.proc(rank)}, For: putters})
			}
		}
		for _, c := range sp.sessions {
			if c.away > 0 || c.spawns > 0 {
				list = append(list, world.Wait{Waiting: []world.Proc{c.p}, Spawns: c.spawns > 0})
			}
		}
	}
	return list
}

// isHere reports whether this node serves a rank.
func (s *space) isHere(rank int) bool { return s.w.Ranks[rank].Node == s.node }

// procsOf are those of some ranks for which something holds.
func (s *space) procsOf(ranks []int, holds func(rank int) bool) (list []world.Proc) {
	for _, rank := range ranks {
		if holds(rank) {
			list = append(list, s.proc(rank))
		}
	}
	return list
}

// procs are the ranks that wait, in ascending order.
func (s *space) procs(waiting map[int]func(error)) []world.Proc {
	return s.procsOf(s.whole.local, func(rank int) bool { return waiting[rank] != nil })
}

// proc is a rank's name.
func (s *space) proc(rank int) world.Proc { return world.Proc{World: s.w.Name, Rank: rank} }
