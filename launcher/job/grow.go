package job

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Growth: a node has started its part of the ranks that the running job got more, or
// could not start some of them.
type Growth struct {
	Node  int
	Ranks []int       // those that were wished for
	PIDs  map[int]int // by rank: those that run
	At    time.Time
}

func (Growth) event() {}

// CanGrow reports whether a node may get more ranks: while the job is not being ended, and
// some rank of the node still runs.
func (s *Supervisor) CanGrow(node int) bool {
	return s.phase == phaseRunning && s.waiting[node] > 0 && !s.gone[node]
}

// NumRunning is how many ranks run, or are being started, on each node.
func (s *Supervisor) NumRunning() []int { return slices.Clone(s.waiting) }

// Ended reports whether a rank has no process any more, or never had one.
func (s *Supervisor) Ended(rank int) bool {
	_, known := s.node[rank]
	return !known || s.exits[rank] != nil || s.unstarted[rank]
}

// Grow takes up ranks that are going to be started in the running job, by node. Each of
// those nodes has to be one that [Supervisor.CanGrow].
func (s *Supervisor) Grow(ranks map[int][]int) error {
	for node := range ranks {
		if !s.CanGrow(node) {
			return fmt.Errorf("the job is being ended, so that it gets no more ranks")
		}
	}
	for node, more := range ranks {
		s.cfg.Nodes[node] = slices.Concat(s.cfg.Nodes[node], more)
		s.waiting[node] += len(more)
		for _, r := range more {
			s.node[r], s.starting[r] = node, true
		}
	}
	return nil
}

// grown: ranks that were not started are none of the job's.
func (s *Supervisor) grown(ev Growth) []Order {
	maps.Copy(s.pids, ev.PIDs)
	for _, r := range ev.Ranks {
		delete(s.starting, r)
	}
	if s.gone[ev.Node] {
		return nil
	}
	for _, r := range ev.Ranks {
		if _, started := ev.PIDs[r]; !started && s.exits[r] == nil {
			s.waiting[ev.Node]--
			delete(s.node, r)
			s.cfg.Nodes[ev.Node] = slices.DeleteFunc(s.cfg.Nodes[ev.Node], func(other int) bool { return other == r })
		}
	}
	return s.endIfEmpty(ev.Node, ev.At)
}
