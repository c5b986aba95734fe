package launcher

import (
	"strings"

	"gorun/launcher/job"
	"gorun/placement/draw"
)

// tellBindings says where each rank is, for --report-bindings.
func (s *session) tellBindings() {
	if !s.spec.Place.Report || s.facts.Machine.Topology == nil {
		return
	}
	text := draw.Seats(s.facts.Machine, seats(s.plan), draw.Style{})
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
