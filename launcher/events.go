package launcher

import (
	"maps"
	"slices"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
)

// emit reports an event at this host, or at its own time.
func (s *settings) emit(e record.Event) {
	if s.Events != nil {
		if e.At.IsZero() {
			e.At = time.Now()
		}
		s.Events(e)
	}
}

// emitEvent emits what the supervisor receives.
func (h *head) emitEvent(ev job.Event) {
	if h.settings.Events == nil {
		return
	}
	p := h.plan.Load()
	e := record.Event{Attempt: p.Attempt}
	switch ev := ev.(type) {
	case job.Running:
		h.emitStarts(ev.PIDs, ev.At)
		return
	case job.Growth:
		h.emitStarts(ev.PIDs, ev.At)
		return
	case job.StartFailed:
		e.Event, e.At, e.Text, e.Code = record.StartFailed, ev.At, ev.Text, &ev.Code
		h.locate(&e, ev.Node)
	case job.Exited:
		e.Event, e.At, e.Rank, e.PID = record.RankEnded, ev.At, &ev.Rank, ev.PID
		h.locate(&e, p.Ranks[ev.Rank].Node)
		if ev.Signal != 0 {
			e.Signal, _ = diagnosis.SignalName(ev.Signal)
		} else {
			e.Code = &ev.Code
		}
	case job.NodeLost:
		e.Event, e.At, e.Text, e.Host = record.NodeLost, ev.At, ev.Text, p.Nodes[ev.Node].Name
	case job.Hung:
		e.Event, e.At, e.Text = record.Hang, ev.At, job.Verdict(h.hang.Load().Ranks)
	default:
		return
	}
	h.settings.emit(e)
}

func (h *head) emitStarts(pids map[int]int, at time.Time) {
	p := h.plan.Load()
	for _, rank := range slices.Sorted(maps.Keys(pids)) {
		e := record.Event{Event: record.RankStarted, At: at, Attempt: p.Attempt, Rank: &rank, PID: pids[rank]}
		h.locate(&e, p.Ranks[rank].Node)
		h.settings.emit(e)
	}
}

// locate says on which node an event happened, by its clock.
func (h *head) locate(e *record.Event, node int) {
	at := &h.plan.Load().Nodes[node]
	e.Host = at.Name
	if at.Remote {
		e.ClockAhead = h.nodes[node].clock.aheadSeconds()
	}
}

// maxLastLines bounds the last lines of all ranks, in bytes.
const maxLastLines = 2 << 20

// reportLastLines implements WithLastLines.
func (h *head) reportLastLines() {
	if h.settings.LastLines == nil {
		return
	}
	h.settings.LastLines(h.allTails())
}

// allTails returns the last lines of each rank.
func (h *head) allTails() (lines []registry.Line) {
	size := 0
	for rank := range h.plan.Load().Ranks {
		for stream := output.Stdout; stream <= output.Stderr && size < maxLastLines; stream++ {
			for _, text := range h.console.Tail(rank, stream) {
				size += len(text)
				lines = append(lines, registry.Line{Rank: rank, Stream: stream, Text: text})
			}
		}
	}
	return lines
}
