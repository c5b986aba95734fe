package pmi

import (
	"maps"
	"slices"

	"gorun/rendezvous/world"
)

// Waits says which ranks of this node wait in barriers now, and for whom.
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
