package pmix

import (
	"maps"
	"slices"

	"gorun/rendezvous/world"
)

// Waits says which ranks of this node wait now, and for whom: in fences and the like, and
// for what others have not committed.
func (s *Server) Waits() (list []world.Wait) {
	s.lock()
	defer s.unlock()
	for _, m := range s.meetings {
		list = append(list, world.Wait{Waiting: m.waiting(), For: m.missing()})
	}
	for _, queue := range s.crossing {
		for _, m := range queue {
			if !m.over {
				list = append(list, world.Wait{Waiting: m.waiting()})
			}
		}
	}
	for _, n := range s.spaces {
		for _, m := range n.members {
			list = append(list, waitsOf(m.waiting)...)
		}
	}
	for _, asking := range s.asked {
		list = append(list, waitsOf(asking)...)
	}
	return list
}

// missing are the members of this node that have not come.
func (m *meeting) missing() []world.Proc {
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(m.here), compareProcs), func(p world.Proc) bool {
		return m.arrived[p] != nil
	})
}

func waitsOf(requests []*held) (list []world.Wait) {
	for _, h := range requests {
		list = append(list, world.Wait{Waiting: []world.Proc{h.who}, For: []world.Proc{h.of}})
	}
	return list
}
