package launcher

import (
	"strings"

	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/draw"
)

// tellBindings says where each rank is, for --report-bindings.
func (s *session) tellBindings() {
	if !s.spec.Place.Report {
		return
	}
	for _, n := range s.active {
		if len(s.active) > 1 {
			s.settings.tell(n.name)
		}
		s.tellBindingsOf(n)
	}
}

func (s *session) tellBindingsOf(n *node) {
	m := n.facts.Machine
	if m.Topology == nil { // it could not be read: CPUs have their numbers
		m.Topology = &placement.Topology{}
	}
	text := draw.Seats(m, seats(s.plan, n.number), draw.Style{ASCII: s.settings.ascii})
	for line := range strings.Lines(text) {
		s.settings.tell(strings.TrimRight(line, "\n"))
	}
}

// seats are those of a node's ranks.
func seats(p *job.Plan, node int) (list []draw.Seat) {
	for _, rank := range p.Nodes[node].Ranks {
		r := p.Ranks[rank]
		list = append(list, draw.Seat{Rank: r.Rank, CPUs: r.CPUs, Memories: r.Memories, GPUs: r.GPUs, Why: r.Reason})
	}
	return list
}
