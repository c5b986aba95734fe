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

// growth implements Spec.Grow.
type growth struct {
	wait  time.Duration // how long the first node waits for others
	last  time.Time     // when the job grew last; zero: long ago
	ready []*node       // nodes that are to get ranks as soon as the attempt has ended
}

// maxGrowthWait is how long a growth waits at most, and how long one must last for the next not to wait longer.
const maxGrowthWait = time.Hour

// watchGrowth ends the attempt once nodes are ready for which the job has a place, until stop is called.
func (s *session) watchGrowth(ctx context.Context, h *head) (stop func()) {
	places := s.size - s.ownNodes()
	if !s.spec.Grow || places <= 0 || s.spec.StartedByEngine() {
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
		await := s.awaitReturns
		if s.listener != nil {
			await = s.awaitJoiners
		}
		for len(s.growth.ready) == 0 && ctx.Err() == nil {
			s.growth.ready = await(ctx, places)
		}
		if len(s.growth.ready) == 0 {
			return
		}
		nodes := slices.Concat(s.nodes, s.growth.ready)
		s.heartbeat.nodes.Store(&nodes)
		text := fmt.Sprintf("the job grows to %d nodes", s.ownNodes()+len(s.growth.ready))
		h.post(job.NodesJoined{Text: text, At: time.Now()})
	})
	return func() {
		cancel()
		busy.Wait()
	}
}

// lastCall is how long the first node waits for others where nothing argues against growth.
func (s *session) lastCall() time.Duration {
	if s.spec.Join == nil {
		return job.DefaultLastCall
	}
	return cmp.Or(s.spec.Join.LastCall, job.DefaultLastCall)
}

// awaitJoiners returns nodes that have joined and are ready, once as many wait as the job has places, or the first has
// waited for long enough.
func (s *session) awaitJoiners(ctx context.Context, places int) []*node {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.listener.WaitingChanged():
		case <-timer.C:
		}
		number, since := s.listener.Waiting()
		left := time.Until(since.Add(s.growth.wait))
		switch {
		case number == 0:
			timer.Stop()
		case left <= 0, number >= places && s.growth.wait == s.lastCall():
			return s.enlist(places)
		default:
			timer.Reset(left)
		}
	}
}

// awaitReturns tries after a while whether hosts that have left the job are back.
func (s *session) awaitReturns(ctx context.Context, places int) []*node {
	timer := time.NewTimer(s.growth.wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
	}
	ctx, cancel := context.WithTimeout(ctx, s.reachTimeout())
	defer cancel()
	back := s.reconnectLeft(ctx, s.outOfQuarantine(s.left))
	for _, n := range back[min(places, len(back)):] {
		n.close()
	}
	return back[:min(places, len(back))]
}

// takeReady adds the nodes that are ready to the job, at the end of an attempt, and returns how many they are. After a
// growth that was soon followed by a loss the next one waits longer: a node that comes and goes must not restart a
// healthy job each time.
func (s *session) takeReady(cause job.Cause, lost int) (number int) {
	g := &s.growth
	held := time.Since(g.last)
	switch {
	case g.last.IsZero():
	case held >= maxGrowthWait:
		g.wait, g.last = s.lastCall(), time.Time{}
	case lost > 0:
		g.wait, g.last = max(g.wait, min(2*g.wait, maxGrowthWait)), time.Time{}
	}
	if number = len(g.ready); number == 0 {
		return 0
	}
	if cause == job.CauseJoined {
		g.last = time.Now()
	}
	if s.listener != nil {
		s.setNodes(slices.Concat(s.nodes, g.ready))
	} else {
		s.takeBack(g.ready)
	}
	g.ready = nil
	return number
}
