package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/ras"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// nccl says what NCCL itself knows of the job. The agents ask it on their hosts: its port is one of the loopback there.
func (l *listing) nccl(ctx context.Context, h *head) registry.NCCL {
	answers, silent := l.usage.askNodes(ctx, h, lookNCCL)
	n := registry.NCCL{ID: l.id, Silent: silent}
	var texts []wireRAS
	for _, a := range answers {
		n.Addr = cmp.Or(n.Addr, printable.Text(a.RASAddr))
		texts = append(texts, wireRAS{a.node, a.RAS})
	}
	status, known := h.rasStatus(texts)
	if !known {
		n.Error = noNCCL(answers)
		return n
	}
	n.Lines = ncclLines(&status, h.rasView())
	n.Status, _ = json.Marshal(status) // it came as JSON
	return n
}

// noNCCL says why NCCL has said nothing, on hosts with the same reason together.
func noNCCL(answers []usedBy) string {
	type reason struct {
		text  string
		hosts []string
	}
	var reasons []*reason
	for _, a := range answers {
		text := printable.Text(a.RASError)
		if a.RASAddr != "" {
			text = fmt.Sprintf("NCCL is asked at %s: %s", printable.Text(a.RASAddr), text)
		}
		i := slices.IndexFunc(reasons, func(r *reason) bool { return r.text == text })
		if i < 0 {
			i, reasons = len(reasons), append(reasons, &reason{text: text})
		}
		reasons[i].hosts = append(reasons[i].hosts, a.node.name)
	}
	switch len(reasons) {
	case 0:
		return "no host of the job says what NCCL answers there"
	case 1:
		return reasons[0].text
	}
	slices.SortStableFunc(reasons, func(a, b *reason) int { return len(b.hosts) - len(a.hosts) })
	return fmt.Sprintf("on %s %s; on %s %s", job.FoldHosts(reasons[0].hosts), reasons[0].text,
		job.FoldHosts(reasons[1].hosts), reasons[1].text)
}

// ncclLines say it for people.
func ncclLines(s *ras.Status, v ras.View) []string {
	count := "no communicator"
	switch n := len(s.Communicators); {
	case n == 1:
		count = "1 communicator"
	case n > 1:
		count = fmt.Sprintf("%d communicators", n)
	}
	lines := []string{fmt.Sprintf("NCCL %s, %s", cmp.Or(s.Version, "of a version that it does not say"), count)}
	findings := s.Findings(v)
	if len(findings) == 0 && len(s.Communicators) > 0 {
		findings = []string{"nothing remarkable"}
	}
	return printables(append(lines, findings...))
}
