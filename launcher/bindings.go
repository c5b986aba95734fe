package launcher

import (
	"fmt"
	"os"
	"strings"

	"gorun/internal/printable"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/draw"
)

// reportBindings prints the nodes' topology and the ranks' bindings on request.
func (s *session) reportBindings() {
	spec, drawn := s.spec.Place, ""
	for _, n := range s.active {
		if spec.Machine {
			picture := draw.Picture(n.machine(), nil, draw.Style{ASCII: s.settings.ASCII})
			if picture != drawn { // once for consecutive equal nodes
				s.notifyOf(n, picture)
			}
			drawn = picture
		}
		if spec.Report {
			s.notifyOf(n, draw.Placements(n.machine(), ranksOn(s.plan, n.number), draw.Style{
				ASCII: s.settings.ASCII, Width: draw.DefaultWidth - len(noticePrefix),
			}))
		}
		if spec.ReportOpenMPI {
			s.reportOpenMPI(n)
		}
	}
}

// noticePrefix precedes each line.
const noticePrefix = "gorun: "

// notifyOf prints a drawing, under the node's name if there are several.
func (s *session) notifyOf(n *node, text string) {
	if len(s.active) > 1 {
		s.settings.notify(n.name)
	}
	for line := range strings.Lines(text) {
		s.settings.notify(strings.TrimRight(line, "\n"))
	}
}

// reportOpenMPI prints bindings in the format of Open MPI 4, for scripts that parse it.
func (s *session) reportOpenMPI(n *node) {
	for line := range strings.Lines(draw.OpenMPI(n.machine(), ranksOn(s.plan, n.number))) {
		text := fmt.Sprintf("[%s:%d] %s", s.plan.Nodes[n.number].Name, os.Getpid(), strings.TrimRight(line, "\n"))
		s.settings.send(Notice{Text: printable.Text(text), Plain: true})
	}
}

// machine always has a topology: without one CPUs have their numbers.
func (n *node) machine() placement.Machine {
	m := n.facts.Machine
	if m.Topology == nil {
		m.Topology = &placement.Topology{}
	}
	return m
}

func ranksOn(p *job.Plan, node int) (list []draw.Placement) {
	for _, rank := range p.Nodes[node].Ranks {
		r := p.Ranks[rank]
		list = append(list, draw.Placement{Rank: r.Rank, CPUs: r.CPUs, Memories: r.Memories, GPUs: r.GPUs, Why: r.Reason})
	}
	return list
}
