package launcher

import (
	"slices"
	"sync"

	"gorun/internal/printable"
	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// onEnded checks reported ends and posts them, or holds them back; see exitGate.
func (h *head) onEnded(n *node, e wire.Ended) error {
	for _, s := range e.Streams {
		if s.Stream != output.Stdout && s.Stream != output.Stderr || !h.firstEnd(n, s.Rank, s.Stream) {
			return wire.Violation("it reported again that stream %d of rank %d has ended, or of a rank that is not its own",
				s.Stream, s.Rank)
		}
	}
	for i := range e.Ranks {
		r := &e.Ranks[i]
		switch {
		case !h.firstEnd(n, r.Rank, 0):
			return wire.Violation("it reported again that rank %d has ended, or of a rank that is not its own", r.Rank)
		case r.PID < 0 || r.Code < -1 || r.Code > 255 || r.Signal < 0 || r.Signal > maxSignal:
			return wire.Violation("it reported that rank %d (pid %d) ended with code %d and signal %d",
				r.Rank, r.PID, r.Code, int(r.Signal))
		}
		r.ErrorFile, r.LastLines = r.ErrorFile[:min(len(r.ErrorFile), errorFileLimit)], printables(boundedTail(r.LastLines))
	}
	h.exits.pass(func() { h.postExits(n, e) })
	return nil
}

// Limits on a failed rank's texts, in bytes.
const (
	errorFileLimit = 64 << 10
	lastLimit      = 256 << 10
)

// boundedTail limits a rank's last lines.
func boundedTail(lines []string) []string {
	lines = lines[max(0, len(lines)-tailLines):]
	size := 0
	for i, line := range slices.Backward(lines) {
		if size += len(line); size > lastLimit {
			return lines[i+1:]
		}
	}
	return lines
}

// firstEnd records the end of a rank (stream 0) or stream, and returns false if the node does not
// have the rank or has reported it before.
func (h *head) firstEnd(n *node, rank, stream int) bool {
	if !h.hasRank(n, rank) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [2]int{rank, stream}
	known := h.reportedEnds[key]
	if h.reportedEnds == nil {
		h.reportedEnds = map[[2]int]bool{}
	}
	h.reportedEnds[key] = true
	return !known
}

func (h *head) postExits(n *node, e wire.Ended) {
	for _, s := range e.Streams {
		h.endStream(n, s)
	}
	for _, r := range e.Ranks {
		r.At, r.RaisedAt, r.SignalledAt = h.localTime(n, r.At), h.localTime(n, r.RaisedAt), h.localTime(n, r.SignalledAt)
		r.OOM, r.Timer, r.Hint = printable.Text(r.OOM), printable.Text(r.Timer), printable.Text(r.Hint)
		if r.MPI != nil {
			r.MPI.Protocol = printable.Text(r.MPI.Protocol)
		}
		if (r.Code != 0 || r.Signal != 0) && r.SignalledAt.IsZero() {
			h.collectFailure()
		}
		peerLost := r.Code != 0 && diagnosis.PeerLost(h.lastLines(r.Rank, r.LastLines))
		h.post(job.Exited{Exit: r, PeerLost: peerLost})
	}
}

func (h *head) endStream(n *node, s wire.StreamEnd) {
	h.console.End(s.Rank, s.Stream)
	if h.logs != nil {
		h.logs.end(n, s.Rank, s.Stream)
	}
}

// exitGate holds exits back while ranks are being inspected: a rank that does not survive the
// inspection must not be taken for the cause.
type exitGate struct {
	mu      sync.Mutex
	held    bool
	waiting []func()
}

func (e *exitGate) hold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = true
}

// pass calls do now, or on release.
func (e *exitGate) pass(do func()) {
	e.mu.Lock()
	if e.held {
		e.waiting = append(e.waiting, do)
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	do()
}

func (e *exitGate) release() {
	e.mu.Lock()
	list := e.waiting
	e.held, e.waiting = false, nil
	e.mu.Unlock()
	for _, do := range list {
		do()
	}
}
