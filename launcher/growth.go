package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gorun/launcher/job"
)

// growth is what becomes of nodes that come later or are back while ranks run.
type growth struct {
	wait  time.Duration // how long the first node waits for others with Spec.Grow
	last  time.Time     // when the job grew last; zero: long ago
	ready []*node       // nodes that join as soon as the attempt has ended
}

// maxGrowthWait is how long a growth waits at most, and how long one must last for the next not to wait longer.
const maxGrowthWait = time.Hour

// maxReturnWait is the longest time between two looks for hosts that are back.
const maxReturnWait = time.Minute

// watchGrowth waits for nodes that come later or are back, until stop is called. With Spec.Grow it ends the attempt for
// them if the job has a place for them. Else they are there for the next one.
func (s *session) watchGrowth(ctx context.Context, h *head) (stop func()) {
	places := 0
	if s.spec.Grow {
		places = s.size - s.ownNodes()
	}
	await := s.awaitReturns
	if s.listener != nil {
		await = s.awaitJoiners
	}
	if s.spec.MinNodes == 0 || s.spec.StartedByEngine() || s.listener != nil && places <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	busy.Go(func() {
		select {
		case <-h.startSent:
		case <-ctx.Done():
			return
		}
		if await(ctx, h, places); ctx.Err() != nil {
			return
		}
		text := fmt.Sprintf("the job grows to %d nodes", s.ownNodes()+min(places, len(s.growth.ready)))
		h.post(job.NodesJoined{Text: text, At: time.Now()})
	})
	return func() {
		cancel()
		busy.Wait()
	}
}

// addReady adds nodes to those that are ready, and drops those that are lost again.
func (s *session) addReady(fresh []*node) {
	s.growth.ready = slices.DeleteFunc(slices.Concat(s.growth.ready, fresh), (*node).isLost)
	nodes := slices.Concat(s.nodes, s.growth.ready)
	s.heartbeat.nodes.Store(&nodes)
}

// lastCall is how long the first node waits for others where nothing argues against growth.
func (s *session) lastCall() time.Duration {
	if s.spec.Join == nil {
		return job.DefaultLastCall
	}
	return cmp.Or(s.spec.Join.LastCall, job.DefaultLastCall)
}

// growsAt returns when a job grows that has places, for a number of nodes of which the first waits since a time.
func (s *session) growsAt(places, number int, since time.Time) time.Time {
	if number >= places && s.growth.wait == s.lastCall() {
		return since
	}
	return since.Add(s.growth.wait)
}

// awaitJoiners waits until nodes have joined and are ready for which the job is to grow.
func (s *session) awaitJoiners(ctx context.Context, _ *head, places int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for len(s.growth.ready) == 0 {
		select {
		case <-ctx.Done():
			return
		case <-s.listener.WaitingChanged():
		case <-timer.C:
		}
		number, since := s.listener.Waiting()
		left := time.Until(s.growsAt(places, number, since))
		switch {
		case number == 0:
			timer.Stop()
		case left <= 0:
			s.addReady(s.enlist(places))
		default:
			timer.Reset(left)
		}
	}
}

// awaitReturns looks, less and less often, whether hosts that the job has lost are back, and makes them spares. It
// returns if the job is to grow by them. Hosts in quarantine are spares only if the job cannot do without its nodes and
// has no other.
func (s *session) awaitReturns(ctx context.Context, h *head, places int) {
	var since time.Time // when the first was ready
	away, here := slices.Clone(s.left), s.standby()
	for look := readmitTime; ; look = min(2*look, maxReturnWait) {
		wait := look
		if places > 0 && len(s.growth.ready) > 0 {
			if wait = min(look, time.Until(s.growsAt(places, len(s.growth.ready), since))); wait <= 0 {
				return
			}
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		for _, n := range here {
			if n.isLost() {
				s.recordFailure(n, n.lossText(n.err))
				s.settings.notify(fmt.Sprintf("spare %s is lost: %s", n.name, n.lossText(n.err)))
				away, look = append(away, n), readmitTime
			}
		}
		wanted := away
		if places > 0 || s.ownNodes() > s.spec.MinNodes || len(s.outOfQuarantine(here)) > 0 {
			wanted = s.outOfQuarantine(away)
		}
		limited, cancel := context.WithTimeout(ctx, s.reachTimeout())
		back := s.passing(s.reconnectLeft(limited, wanted))
		cancel()
		away = slices.DeleteFunc(away, sameHostAs(back))
		here = append(slices.DeleteFunc(here, (*node).isLost), back...)
		if s.addReady(back); len(s.growth.ready) == len(back) {
			since = time.Now()
		}
		h.members.Store(s.heartbeat.nodes.Load())
		for _, n := range back {
			s.reportReturn(n, ", as a spare")
			h.warm(n)
		}
	}
}

// takeReady adds the nodes that are ready to the job, at the end of an attempt, and returns how many they are. They are
// spares until grow. After a growth that was soon followed by a loss the next one waits longer: a node that comes and
// goes must not restart a healthy job each time.
func (s *session) takeReady(cause job.Cause, lost int) int {
	g := &s.growth
	held := time.Since(g.last)
	switch {
	case g.last.IsZero():
	case held >= maxGrowthWait:
		g.wait, g.last = s.lastCall(), time.Time{}
	case lost > 0:
		g.wait, g.last = max(g.wait, min(2*g.wait, maxGrowthWait)), time.Time{}
	}
	if cause == job.CauseJoined {
		g.last = time.Now()
	}
	s.addReady(nil)
	ready := g.ready
	if g.ready = nil; len(ready) == 0 {
		return 0
	}
	s.spec.NumNodes = s.ownNodes()
	for _, n := range slices.Clone(s.nodes[s.spec.NumNodes:]) {
		if sameHostAs(ready)(n) { // the spare that was lost
			s.leave(n, nil)
		}
	}
	s.left = slices.DeleteFunc(slices.Clone(s.left), sameHostAs(ready))
	s.setNodes(slices.Concat(s.nodes, ready))
	return len(ready)
}

// sameHostAs reports whether a node is on the host of one of others.
func sameHostAs(others []*node) func(*node) bool {
	return func(n *node) bool {
		return slices.ContainsFunc(others, func(other *node) bool { return other.name == n.name })
	}
}
