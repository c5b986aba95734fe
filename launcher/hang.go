package launcher

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Limits of watching several nodes.
const (
	hangChecks     = 4                // how often it is looked within the time-out
	inspectTimeout = 15 * time.Second // how long a node has to say what its ranks do
)

// watchHang finds out that on no node anything goes on any more. It counts looks that
// saw nothing new, and not the time between them, as an agent does for a job of one
// node.
func (h *head) watchHang() {
	tick := time.NewTicker(h.spec.HangTimeout / hangChecks)
	defer tick.Stop()
	var seen []int64
	for same := 0; same < hangChecks; {
		select {
		case <-h.over:
			return
		case <-tick.C:
		}
		signs := h.progressSigns()
		if same++; !slices.Equal(signs, seen) {
			seen, same = signs, 0
		}
	}
	h.inspectHang()
}

// signs are different whenever something has gone on at a node. The answers to what is
// asked here come for the next look.
func (h *head) progressSigns() (signs []int64) {
	for _, n := range h.nodes {
		signs = append(signs, n.progressSigns.Load())
		_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // or it is lost, which others notice
	}
	return signs
}

// inspect tells of a hang what all ranks do.
func (h *head) inspectHang() {
	h.inspectRanks(h.spec.HangTimeout, h.spec.OnHang == job.HangStop, h.reportHang)
}

// inspectRanks asks all nodes what their ranks do, and has use take the answers unless the job is over by then. Ranks
// that are to end may not survive the question: until use returns, how they ended is held back. Questions wait for each
// other, since an answer does not say to which it is.
func (h *head) inspectRanks(quiet time.Duration, stop bool, use func(*job.Hang)) {
	h.inspecting.Lock()
	defer h.inspecting.Unlock()
	for len(h.inspected) > 0 {
		<-h.inspected // an answer to the question before that came late
	}
	h.exits.hold()
	hang := &job.Hang{Quiet: quiet, At: time.Now()}
	for i, n := range h.nodes {
		// Or it is lost, which others notice.
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
		hang.Ranks = append(hang.Ranks, h.activities(a.node, a.body.Ranks)...)
		texts = append(texts, a.body.RAS)
	}
	slices.SortFunc(hang.Ranks, func(a, b spec.Activity) int { return cmp.Compare(a.Rank, b.Rank) })
	hang.NCCL = h.rasFindings(texts...)
	use(hang)
	h.exits.release()
}

// hung passes on what each rank did when nothing went on any more.
func (h *head) onHung(n *node, m wire.Hung) error {
	if len(h.nodes) == 1 && m.Quiet > 0 { // it saw that by itself
		h.reportHang(&job.Hang{
			Quiet: m.Quiet, At: h.localTime(n, m.At), Ranks: h.activities(n, m.Ranks), NCCL: h.rasFindings(m.RAS),
		})
		return nil
	}
	select {
	case h.inspected <- answer[wire.Hung]{n, m}:
	default: // nobody asked
	}
	return nil
}

func (h *head) reportHang(hang *job.Hang) {
	h.hang.Store(hang)
	if h.spec.OnHang == job.HangReport {
		for _, line := range hang.Lines() {
			h.settings.notify(line)
		}
	}
	h.post(job.Hung{At: hang.At})
}

// hangRanks are what a node's ranks do, each with its last line.
func (h *head) activities(n *node, all []spec.Activity) (ranks []spec.Activity) {
	seen := map[int]bool{}
	for _, r := range all {
		if !h.hasRank(n, r.Rank) || seen[r.Rank] {
			continue
		}
		seen[r.Rank] = true
		r.State, r.Wait, r.LastLine = printable.Text(r.State), printable.Text(r.Wait), printable.Text(r.LastLine)
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
