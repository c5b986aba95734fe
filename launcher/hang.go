package launcher

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// inspectTimeout is for a node to inspect its ranks.
const inspectTimeout = 15 * time.Second

func (h *head) inspectHang() {
	h.inspectRanks(spec.Seconds(h.spec.HangTimeout), h.spec.OnHang != job.HangReport, h.reportHang)
}

// inspectRanks queries what all ranks do, and calls use unless the job is over by then. Ranks that
// are about to end may not survive the query, so it holds exits back until use returns. Queries do
// not overlap, since an answer does not name its query.
func (h *head) inspectRanks(quiet spec.Seconds, stop bool, use func(*job.Hang)) {
	h.inspecting.Lock()
	defer h.inspecting.Unlock()
	for len(h.inspected) > 0 {
		<-h.inspected // late answers to the last query
	}
	h.exits.hold()
	hang := &job.Hang{Hang: spec.Hang{Quiet: quiet, At: time.Now()}}
	for i, n := range h.nodes {
		// readLoop notices a lost link
		_ = n.link.Send(&wire.Inspect{Quiet: quiet, Stop: stop, RAS: quiet > 0 && i == 0})
	}
	limit, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	answers, _ := collect(limit, h, h.inspected)
	select {
	case <-h.over:
		return
	default:
	}
	var texts [][]byte
	for _, a := range answers {
		hang.Ranks = append(hang.Ranks, a.body.Ranks...)
		texts = append(texts, a.body.RAS)
	}
	slices.SortFunc(hang.Ranks, func(a, b spec.Activity) int { return cmp.Compare(a.Rank, b.Rank) })
	hang.NCCL, h.ras = h.rasFindings(texts...), texts
	use(hang)
	h.exits.release()
}

func (h *head) onHung(n *node, m wire.Hung) error {
	m.Ranks = h.activities(n, m.Ranks) // now: what ranks print about the question follows
	select {
	case h.inspected <- answer[wire.Hung]{n, m}:
	default: // unsolicited
	}
	return nil
}

func (h *head) reportHang(hang *job.Hang) {
	remains := func(a spec.Activity) bool { return !strings.HasPrefix(a.State, "ended") }
	if len(hang.Ranks) == len(h.plan.Load().Ranks) && !slices.ContainsFunc(hang.Ranks, remains) {
		return // all have ended meanwhile
	}
	hang.Hint = job.StackHint(hang.Ranks)
	h.hang.Store(hang)
	h.collectHang(hang)
	if h.spec.OnHang == job.HangReport {
		for _, line := range hang.Lines() {
			h.settings.notify(line)
		}
	}
	h.post(job.Hung{At: hang.At})
}

// activities returns what a node's ranks do, each with its last line.
func (h *head) activities(n *node, all []spec.Activity) (ranks []spec.Activity) {
	seen := map[int]bool{}
	for _, r := range all {
		if !h.hasRank(n, r.Rank) || seen[r.Rank] {
			continue
		}
		seen[r.Rank] = true
		r.State, r.Wait, r.LastLine = printable.Text(r.State), printable.Text(r.Wait), printable.Text(r.LastLine)
		r.Obstacle = printable.Text(r.Obstacle)
		r.Keys, r.Stack = printables(r.Keys), printables(r.Stack)
		for _, stream := range []int{1, 2} {
			if last := h.console.Tail(r.Rank, stream); len(last) > 0 {
				r.LastLine = last[len(last)-1]
			}
		}
		ranks = append(ranks, r)
	}
	return ranks
}
