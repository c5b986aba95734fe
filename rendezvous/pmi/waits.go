package pmi

import (
	"maps"
	"slices"

	"gorun/rendezvous/world"
)

// Waits says which ranks of this node wait now, and for whom: in barriers, for attributes
// of their host, and for ranks that they spawn.
func (s *Server) Waits() (list []world.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		for _, b := range append(slices.Collect(maps.Values(sp.groups)), sp.whole, sp.ring) {
			if len(b.came) > 0 {
				list = append(list, world.Wait{Waiting: procs(sp.w, b.came), For: b.missing(sp.w)})
			}
			if len(b.away) > 0 {
				list = append(list, world.Wait{Waiting: procs(sp.w, b.away)})
			}
		}
		list = append(list, sp.attributeWaits()...)
		for _, c := range sp.sessions {
			list = append(list, c.waits()...)
		}
	}
	return list
}

// missing are the ranks of this node that have not come.
func (b *barrier) missing(w *world.World) (list []world.Proc) {
	for _, rank := range b.local {
		if b.came[rank] == nil {
			list = append(list, world.Proc{World: w.Name, Rank: rank})
		}
	}
	return list
}

// attributeWaits are the ranks here that wait for attributes which this node has: whoever is
// on their host may put them.
func (s *space) attributeWaits() (list []world.Wait) {
	waiting := map[int]bool{}
	for _, asked := range s.attributes.waiting {
		for _, w := range asked {
			waiting[w.rank] = s.w.Ranks[w.rank].Node == s.whole.node
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(waiting)) {
		if waiting[rank] && !s.ended[rank] {
			list = append(list, world.Wait{Waiting: []world.Proc{{World: s.w.Name, Rank: rank}}, For: s.putters(rank)})
		}
	}
	return list
}

// putters are the ranks that may put what a rank of this node waits for, as far as they are
// on this node and run.
func (s *space) putters(rank int) (list []world.Proc) {
	for _, r := range s.local {
		if r != rank && !s.ended[r] && s.w.Ranks[r].Host == s.w.Ranks[rank].Host {
			list = append(list, world.Proc{World: s.w.Name, Rank: r})
		}
	}
	return list
}
