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
	m := s.facts.Machine
	if m.Topology == nil { // it could not be read: CPUs have their numbers
		m.Topology = &placement.Topology{}
	}
	text := draw.Seats(m, seats(s.plan), draw.Style{ASCII: s.settings.ascii})
	for line := range strings.Lines(text) {
		s.settings.tell(strings.TrimRight(line, "\n"))
	}
}

func seats(p *job.Plan) []draw.Seat {
	list := make([]draw.Seat, len(p.Ranks))
	for i, r := range p.Ranks {
		list[i] = draw.Seat{Rank: r.Rank, CPUs: r.CPUs, Memories: r.Memories, GPUs: r.GPUs, Why: r.Reason}
	}
	return list
}
