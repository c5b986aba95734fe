package job

import (
	"cmp"
	"slices"
	"syscall"
	"time"
)

// NodesJoined: nodes are ready with which the job is to be started again.
type NodesJoined struct {
	Text string
	At   time.Time
}

func (NodesJoined) event() {}

func (s *Supervisor) nodeLost(ev NodeLost) []Order {
	n := &s.nodes[ev.Node]
	if n.cleaned {
		return nil
	}
	n.cleaned, n.running = true, 0
	orders := s.stop(CauseNode, syscall.SIGTERM, ev.At)
	if s.cause == CauseNode {
		s.text = cmp.Or(s.text, ev.Text)
	}
	return orders
}

// overJoined are causes that prevail while ranks stop for nodes that have joined.
var overJoined = []Cause{CauseSignal, CauseTimeout, CauseReaderGone, CauseCancelled, CauseNode}

// nodesJoined lets a job end by itself in which a rank has ended.
func (s *Supervisor) nodesJoined(ev NodesJoined) []Order {
	ended := func(r *rankState) bool { return r != nil && r.exit != nil }
	if s.phase != phaseRunning || slices.ContainsFunc(s.ranks, ended) {
		return nil
	}
	s.text = ev.Text
	return s.stop(CauseJoined, syscall.SIGTERM, ev.At)
}

// stopped reports whether a rank had not ended, without a failure, before its node sent it a signal.
func (r *rankState) stopped() bool {
	switch {
	case r == nil:
		return false
	case r.exit == nil || r.failed():
		return true
	}
	return !r.exit.SignalledAt.IsZero() && !r.exit.At.Before(r.exit.SignalledAt)
}
