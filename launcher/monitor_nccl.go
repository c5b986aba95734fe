package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/ras"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// nccl describes NCCL's view of the job. Agents query NCCL, whose port is on loopback.
func (l *monitor) nccl(ctx context.Context, h *head) registry.NCCL {
	answers, silent := h.queries.run(ctx, h, queryNCCL)
	n := registry.NCCL{ID: l.id, Silent: silent}
	var texts [][]byte
	for _, a := range answers {
		n.Addr = cmp.Or(n.Addr, printable.Text(a.body.RASAddr))
		texts = append(texts, a.body.RAS)
	}
	status, known := h.rasStatus(texts)
	if !known {
		n.Error = noNCCL(answers)
		return n
	}
	n.Lines = ncclLines(&status, h.rasView())
	n.Status, _ = json.Marshal(status) // it was JSON
	return n
}

// noNCCL explains why there is no answer of NCCL: the two most frequent reasons.
func noNCCL(answers []answer[wire.Used]) string {
	hosts := map[string][]string{}
	var reasons []string
	for _, a := range answers {
		text := printable.Text(a.body.RASError)
		if a.body.RASAddr != "" {
			text = fmt.Sprintf("NCCL at %s: %s", printable.Text(a.body.RASAddr), text)
		}
		if hosts[text] == nil {
			reasons = append(reasons, text)
		}
		hosts[text] = append(hosts[text], a.node.name)
	}
	switch len(reasons) {
	case 0:
		return "NCCL did not answer on any host"
	case 1:
		return reasons[0]
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return len(hosts[b]) - len(hosts[a]) })
	on := func(reason string) string { return "on " + job.HostRanges(hosts[reason]) + " " + reason }
	return on(reasons[0]) + "; " + on(reasons[1])
}

// ncclLines formats a status for people.
func ncclLines(s *ras.Status, v ras.View) []string {
	lines := []string{fmt.Sprintf("NCCL %s, %s", cmp.Or(s.Version, "(unknown version)"),
		plural(len(s.Communicators), "communicator"))}
	findings := s.Findings(v)
	if len(findings) == 0 && len(s.Communicators) > 0 {
		findings = []string{"nothing remarkable"}
	}
	return printables(append(lines, findings...))
}
