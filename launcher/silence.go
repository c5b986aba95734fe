package launcher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

// watchHang begins to check whether the ranks do anything, if somebody wants to know.
func (h *head) watchHang() {
	suspect := h.spec.SuspectAfter
	if len(h.plan.Load().Ranks) == 1 || h.stdio.Terminal { // somebody looks at it
		suspect = 0
	}
	if h.watch = job.NewHangWatch(suspect, h.spec.HangTimeout, h.spec.OnHang); h.watch != nil {
		h.armCheck()
	}
}

func (h *head) armCheck() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.sup.Done():
	case h.nextCheck == nil:
		h.nextCheck = h.arm(h.watch.Tick, h.checkHang)
	default:
		h.nextCheck.Reset(h.watch.Tick)
	}
}

// checkHang checks once, and arms the next check unless this was the last.
func (h *head) checkHang() {
	signs, changed := h.sight()
	verdict, seen := h.watch.Check(changed, job.NewSilence(signs), func() job.Silence { return h.lookCloser(signs) })
	quiet := h.watch.Quiet()
	switch verdict {
	case job.HangCertain:
		h.inspectHang()
		return
	case job.HangBusy:
		h.settings.note(fmt.Sprintf("nothing was printed for %s, but this is no hang: %s; `gorun stacks` shows where, "+
			"`--on-hang stop-busy` ends such a job", quiet, seen.Text))
	case job.HangSuspected:
		h.collectSuspicion()
		text := seen.Text
		if h.verdict != "" {
			text += "; " + h.verdict
		}
		h.settings.emit(record.Event{Event: record.HangSuspected, Attempt: h.plan.Load().Attempt, Text: text})
		h.settings.notify(fmt.Sprintf("nothing was printed and nothing happens for %s: %s; `gorun stacks` shows where, "+
			"`--hang-timeout %s` ends such a job", quiet, seen.Text, quiet))
	}
	h.armCheck()
}

// sighting is what nodes and ranks had done by a check.
type sighting struct {
	nodes map[*node]wire.Used
	ranks map[int]wire.RankUsage
}

// sight returns what ranks did since the last check, and whether they printed or met. A node that does not answer
// counts as one where nothing happens.
func (h *head) sight() (signs []job.Signs, changed bool) {
	answers, _ := h.queries.ask(context.Background(), h, querySigns)
	before := h.sighted
	h.sighted = sighting{nodes: map[*node]wire.Used{}, ranks: map[int]wire.RankUsage{}}
	for _, a := range answers {
		last, known := before.nodes[a.node]
		h.sighted.nodes[a.node] = a.body
		changed = changed || !known || last.Progress != a.body.Progress
		seconds := max(a.body.At.Sub(last.At).Seconds(), 1e-3)
		rate := func(from, to int64) int64 { return int64(float64(max(to-from, 0)) / seconds) }
		for _, u := range h.usages([]answer[wire.Used]{a}) {
			was, known := before.ranks[u.Rank]
			h.sighted.ranks[u.Rank] = u.RankUsage
			s := job.Signs{
				Rank: u.Rank, CPU: -1, GPU: -1, Network: rate(last.Network, a.body.Network), Store: len(u.Keys) > 0,
			}
			if u.MPI != nil {
				s.Behind = "MPI"
			}
			if known && u.CPUTime >= 0 {
				s.CPU = int(rate(int64(was.CPUTime), int64(u.CPUTime)) * 100 / int64(time.Second))
				s.IO, s.TCP = rate(was.IO, u.IO), rate(was.TCP, u.TCP)
				s.Main = int(rate(int64(was.MainCPU), int64(u.MainCPU)) / int64(time.Millisecond))
				s.Runs, s.Received = rate(was.Runs, u.Runs), rate(60*was.Received, 60*u.Received)
			}
			changed = changed || !known || s.Store != (len(was.Keys) > 0) || (u.MPI == nil) != (was.MPI == nil)
			if u.PID != 0 && u.CPUTime >= 0 { // else it has ended
				signs = append(signs, s)
			}
		}
	}
	return signs, changed
}

// closerLooks is how many stacks of a rank must show that it waits: one may be chance in a program that communicates
// much.
const closerLooks = 5

// lookCloser looks at what NCCL and the ranks' stacks say about ranks that seem to work, or not to.
func (h *head) lookCloser(signs []job.Signs) job.Silence {
	answers, _ := h.queries.run(context.Background(), h, queryNCCL)
	var texts [][]byte
	for _, a := range answers {
		texts = append(texts, a.body.RAS)
	}
	status, _ := h.rasStatus(texts)
	waiting, progressing := status.Waiting()
	if progressing {
		return job.Silence{Text: "NCCL begins collectives", Works: true}
	}
	for i := range signs {
		if waiting[signs[i].Rank] {
			signs[i].Behind = "NCCL"
		}
	}
	looks := 1 // for the GPUs
	if job.NewSilence(signs).Works {
		looks = closerLooks
	}
	var seen job.Silence
	for range looks {
		h.lookAtStacks(signs)
		if seen = job.NewSilence(signs); seen.Works {
			break
		}
	}
	return seen
}

// lookAtStacks completes signs by stacks and the use of GPUs.
func (h *head) lookAtStacks(signs []job.Signs) {
	answers, _ := h.queries.ask(context.Background(), h, queryCause)
	doing, busy := map[int]spec.Activity{}, map[string]int{}
	var ranks []spec.Activity
	for _, u := range h.usages(answers) {
		doing[u.Rank], ranks = u.Activity, append(ranks, u.Activity)
	}
	h.verdict = job.Verdict(ranks)
	for _, a := range answers {
		for _, g := range a.body.GPUs {
			if g.Busy != nil {
				busy[fmt.Sprint(slices.Index(h.nodes, a.node), g.PCI)] = *g.Busy
			}
		}
	}
	p := h.plan.Load()
	for i := range signs {
		s := &signs[i]
		s.Input = doing[s.Rank].State == spec.ReadsInput
		s.Collective, s.GPU = job.InCollective(doing[s.Rank].Stack), -1
		for _, g := range p.Ranks[s.Rank].GPUs {
			if use, known := busy[fmt.Sprint(p.Ranks[s.Rank].Node, g.PCI)]; known {
				s.GPU = max(s.GPU, use)
			}
		}
	}
}
