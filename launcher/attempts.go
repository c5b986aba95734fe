package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// runAttempts runs the job with all its attempts, and measures their progress.
func (s *session) runAttempts(ctx context.Context) (job.Result, error) {
	if s.preemption.signal != 0 { // it may have come already
		s.signals.hold()
		s.signals.listen()
	}
	p := progressClock{policy: &s.spec.Restarts, began: time.Now()}
	s.monitor.setClock(&p)
	r, err := s.attempts(ctx, &p)
	if err == nil && (len(r.Attempts) > 0 || s.spec.Restarts.ProgressFile != "") {
		r.Goodput = job.NewGoodput(time.Since(p.began), p.useful)
		if r.Cause == job.CauseDone || r.Requeued != "" { // else the report says so
			s.settings.notify("goodput: " + r.Goodput.String())
		}
	}
	return r, err
}

// attempts runs the job and, within the restart budget, runs it again with an empty store after
// a rank or node has failed.
func (s *session) attempts(ctx context.Context, progress *progressClock) (job.Result, error) {
	budget := s.restartBudget()
	s.growth.wait = s.lastCall()
	s.settings.detail(fmt.Sprintf("hosts and plan: ready after %s", s.elapsed()))
	began := progress.began
	var before []job.Attempt
	var result job.Result
	for {
		if s.preempted() {
			return s.endIdle(s.preemptedResult(result.LogDir), before, began), nil
		}
		var err error
		var came int
		if result, came, err = s.runAttempt(ctx, progress); err != nil {
			return result, err
		}
		result.Attempts = before
		lost := s.lostNodes()
		switch result.Cause {
		case job.CauseRank, job.CauseNode, job.CauseJoined:
			s.countMembers(lost, &budget)
		}
		returning, leaving, enough := s.replaceable(lost)
		if !enough { // some that left may be back
			s.readmit(ctx, s.left, readmitTime)
			returning, leaving, enough = s.replaceable(lost)
		}
		earlier := s.left
		useful := progress.end(&result)
		delay, again := budget.Next(job.AttemptEnd{
			Result: &result, Lost: len(lost), At: time.Since(began), Useful: useful,
		})
		checkpointed := again && budget.Checkpointed(&result)
		if checkpointed && s.requeue(&result) {
			return result, nil
		}
		if !again || !enough || result.Cause == job.CauseNode && len(lost) == 0 {
			if s.engine != nil {
				s.engine.attribute(&result, false)
			}
			if result.Cause != job.CauseRank { // the end of the whole job is timed from its start
				result.After, result.Elapsed = job.Seconds(s.ids.Elapsed)+result.After, job.Seconds(s.ids.Elapsed)+result.Elapsed
			}
			return result, nil
		}
		if result.Cause != job.CauseJoined { // as torchrun counts
			s.ids.Restarts++
		}
		before = append(before, job.NewAttempt(s.ids.Attempt, &result, useful, checkpointed, diagnosis.SignalName))
		if result.Signal != 0 && (result.Cause == job.CauseRank || result.Cause == job.CauseNode) { // it came meanwhile
			endedBy(&result, job.CauseSignal, result.Signal)
			return s.endIdle(result, before, began), nil
		}
		next := fmt.Sprintf("restart %d of %d", budget.Used, budget.Max)
		if checkpointed || result.Cause == job.CauseJoined || len(lost) > 0 && budget.NodeLosses > 0 {
			next = fmt.Sprintf("attempt %d", s.ids.Attempt+1)
		}
		s.reportRestart(before[len(before)-1].Summary(), next, delay, lost, leaving)
		if result.Cause == job.CauseJoined {
			result.Text = ""
		}
		s.grow()
		s.monitor.setPaused(true)
		switch goesOn, err := s.prepare(ctx, delay, returning, earlier, len(lost)+came > 0, began, &result); {
		case !goesOn:
			return s.endIdle(result, before, began), nil
		case err != nil && len(lost) == 0:
			return result, err
		case err != nil:
			result.Attempts = before[:len(before)-1]
			s.explainNoRestart(&result, lost[0], err)
			return result, nil
		}
		s.monitor.setPaused(false)
	}
}

// runAttempt returns also how many nodes are ready for the next one.
func (s *session) runAttempt(ctx context.Context, progress *progressClock) (job.Result, int, error) {
	h := newHead(&s.call, s.plan, s.active, s.key)
	nodes := s.nodes
	h.members.Store(&nodes)
	h.left, h.generation = s.left, s.generation
	progress.start()
	stop := s.watchGrowth(ctx, h)
	result, err := h.run(ctx)
	s.settings.console.Store(nil)
	stop()
	lost := s.lostNodes()
	if result.Cause == job.CauseJoined && len(lost) > 0 { // after its ranks had ended
		result.Cause, result.Text = job.CauseNode, lost[0].name+" is lost: "+lost[0].lossText(lost[0].err)
	}
	came := s.takeReady(result.Cause, len(lost))
	h.reportTimes()
	return result, came, err
}

// preemptedResult is that of a job that no further attempt follows after the notice of its end.
func (s *session) preemptedResult(logDir string) job.Result {
	sig := s.preemption.signal
	r := job.Result{
		JobID: s.plan.JobID, LogDir: logDir, Cause: job.CausePreempted, Signal: sig, ExitCode: 128 + int(sig),
	}
	r.SetSignalNames(diagnosis.SignalName)
	return r
}

// endedBy makes a result that of a job that a signal ended while no ranks ran.
func endedBy(r *job.Result, cause job.Cause, sig syscall.Signal) {
	r.Cause, r.Signal, r.ExitCode, r.Text = cause, sig, 128+int(sig), ""
	r.SetSignalNames(diagnosis.SignalName)
}

// endIdle completes the result of a job that ended while no ranks ran.
func (s *session) endIdle(r job.Result, before []job.Attempt, began time.Time) job.Result {
	if last := len(before) - 1; r.Cause == job.CauseNode && before[last].Text != "" { // the result has the same text
		before = before[:last]
	}
	r.Attempts, r.First = before, nil
	r.Elapsed = job.Seconds(time.Since(began))
	r.After = r.Elapsed
	if r.Cause == job.CausePreempted && len(s.spec.Restarts.OnCodes) > 0 {
		s.requeue(&r)
	}
	return r
}

func (s *session) restartBudget() job.RestartBudget {
	b := job.RestartBudget{Restarts: s.spec.Restarts}
	if s.spec.Scheduler != nil {
		b.Requeues = s.spec.Scheduler.Restarts
	}
	return b
}

// countMembers records the failures of lost nodes and admits others. Unless the user limits losses, each node above the
// minimum may be lost, those that came later or are back too. Others cost a restart, but those that joined, for which
// the job waits.
func (s *session) countMembers(lost []*node, budget *job.RestartBudget) {
	for _, n := range lost {
		s.recordFailure(n, n.lossText(n.err))
	}
	if s.listener != nil && s.spec.MinNodes > 0 {
		s.admit(len(lost))
	}
	switch most := len(s.nodes) - s.spec.MinNodes; {
	case s.spec.Restarts.NodeLosses > 0 || s.spec.MinNodes == 0:
	case most >= len(lost) || s.listener != nil && s.awaitsMembers():
		budget.NodeLosses = budget.Lost + max(most, len(lost))
	default:
		budget.NodeLosses = 0
	}
}

// reportTimes says, as a detail, how long the attempt's phases took.
func (h *head) reportTimes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started.IsZero() {
		return
	}
	const unit = 100 * time.Microsecond
	h.settings.detail(fmt.Sprintf("ranks: started within %s, ran for %s",
		h.started.Sub(h.began).Round(unit), time.Since(h.started).Round(unit)))
}

// reportRestart has nodes leave the job, and says how an attempt ended, what becomes of lost nodes, and what is next.
func (s *session) reportRestart(text, next string, delay time.Duration, lost, leaving []*node) {
	named := func(n *node) bool { return strings.HasPrefix(text, n.name+" is lost") }
	if first := slices.IndexFunc(lost, named); first > 0 {
		lost[0], lost[first] = lost[first], lost[0]
	}
	for i, n := range lost {
		if i > 0 || !named(n) {
			text += "; " + n.name + " is lost, too"
		}
		if slices.Contains(leaving, n) {
			text += "; " + s.leave(n, s.spares())
		} else {
			text += "; it gets another agent"
		}
	}
	text += "; " + next
	if delay > 0 {
		text += " in " + delay.String()
	}
	s.settings.notify(text)
}

// awaitRestart waits for the delay or the notice of the job's end, and restarts the agents of lost nodes and, where
// possible, of those that have left. It returns false, with the reason in r, if the job is to end instead: a node did
// not return, a user or the resource manager ended the job, or its time since began is over.
func (s *session) awaitRestart(
	ctx context.Context, delay time.Duration, lost, left []*node, began time.Time, r *job.Result,
) bool {
	returning, cancel := context.WithCancel(ctx)
	returned := make(chan error, 1)
	var busy sync.WaitGroup
	busy.Go(func() {
		due := time.Now().Add(delay)
		if len(left) > 0 && (delay > 0 || len(lost) > 0 || s.ownNodes() < s.size) { // else a spare goes on at once
			s.readmit(returning, s.outOfQuarantine(left), max(delay, readmitTime))
		}
		err := s.reconnectAfter(returning, time.Until(due), lost)
		if err == nil {
			err = s.awaitMembers(returning)
		}
		returned <- err
	})
	defer busy.Wait()
	defer cancel()
	deadline := make(<-chan time.Time)
	if s.spec.Timeout > 0 {
		last := time.NewTimer(time.Until(began.Add(s.spec.Timeout)))
		defer last.Stop()
		deadline = last.C
	}
	for {
		select {
		case err := <-returned:
			switch {
			case err == nil:
				return true
			case ctx.Err() == nil:
				s.explainNoRestart(r, append(lost, s.left...)[0], err)
				return false
			}
		case <-s.engine.ending():
			endedBy(r, job.CauseEngine, syscall.SIGTERM)
			s.engine.attribute(r, false)
			return false
		case <-deadline:
			r.Cause, r.ExitCode = job.CauseTimeout, cmp.Or(s.spec.TimeoutCode, job.ExitTimeout)
			return false
		case <-ctx.Done():
			r.Cause, r.ExitCode = job.CauseCancelled, 128+int(syscall.SIGTERM)
			return false
		case w := <-s.monitor.stopRequests():
			endedBy(r, job.CauseSignal, w.signal)
			return false
		case <-s.preemption.announced:
			return true
		case sig := <-s.signals.received:
			number, ok := sig.(syscall.Signal)
			if ok && job.Ends(number) {
				endedBy(r, job.CauseSignal, number)
				return false
			}
			s.preemption.isNotice(number)
		}
	}
}

// prepare awaits the restart and plans the next attempt, again without nodes that are lost meanwhile. goesOn is the
// result of awaitRestart.
func (s *session) prepare(
	ctx context.Context, delay time.Duration, lost, left []*node, changed bool, began time.Time, r *job.Result,
) (goesOn bool, err error) {
	for s.ids.Attempt++; ; delay, lost, left, changed = 0, nil, nil, true {
		if !s.awaitRestart(ctx, delay, lost, left, began, r) {
			return false, nil
		}
		if s.preempted() {
			return true, nil
		}
		s.ids.Elapsed = time.Since(began)
		if err := s.replan(changed); err == nil || !s.dropLost() {
			return true, err
		}
	}
}

// replan plans the next attempt, with an empty store and, after losses, with another marker.
func (s *session) replan(newAgents bool) error {
	if newAgents {
		if err := s.renewMarker(); err != nil {
			return err
		}
	}
	s.dropQuarantined()
	if err := s.checkNodes(); err != nil {
		return err
	}
	if s.membersChanged {
		s.generation++
		if at := slices.IndexFunc(s.nodes, (*node).isLost); at >= 0 {
			return s.nodes[at].err // without it there may be too few
		}
		if err := s.meet(); err != nil {
			return err
		}
	}
	opened, err := s.openStore()
	if err != nil {
		return err
	}
	if err := s.makePlan(opened); err != nil {
		return err
	}
	s.settings.Planned(s.plan)
	return nil
}

// lostNodes returns the attempt's nodes whose agents are lost.
func (s *session) lostNodes() []*node {
	return slices.DeleteFunc(slices.Clone(s.active), func(n *node) bool { return !n.isLost() })
}

func (n *node) isLost() bool {
	select {
	case <-n.lost:
		return true
	default:
		return false
	}
}

// canRestart reports whether a lost node may have another agent: this process had started the
// agent, and its connection ended, so that its ranks have ended, too. A silent node may still
// run its ranks, and a node that broke the protocol is not trusted.
func (n *node) canRestart() bool {
	return n.kind == wire.PeerSSH && n.abandoned.Load() == nil && !n.isHostile()
}

// reconnectAfter waits for the delay, then starts new agents on the hosts of lost nodes.
func (s *session) reconnectAfter(ctx context.Context, delay time.Duration, lost []*node) error {
	if pause(ctx, delay); ctx.Err() != nil || len(lost) == 0 {
		return ctx.Err()
	}
	nodes, before := slices.Clone(s.nodes), make(map[*node]*node, len(lost))
	for _, n := range lost {
		fresh := n.again(s.settings.notify)
		nodes[slices.Index(nodes, n)], before[fresh] = fresh, n
	}
	s.nodes = nodes
	s.heartbeat.nodes.Store(&nodes)
	return s.forEachNeeded(func(n *node) error {
		if before[n] == nil {
			return nil
		}
		return s.reconnect(ctx, before[n], n)
	})
}

// renewMarker changes the marker of the job's processes: guards of lost agents may still kill those
// with the old one. The public part of the job's id stays.
func (s *session) renewMarker() error {
	fresh, err := process.NewJobID()
	if err != nil {
		return err
	}
	name := registry.ID(s.ids.Job)
	s.ids.Job = name + fresh[len(name):]
	return nil
}

// reconnect starts a new agent and queries it. The network is assumed to be unchanged.
func (s *session) reconnect(ctx context.Context, before, n *node) error {
	before.close()
	before.copied = nil
	err := s.connectTo(ctx, n)
	if err == nil {
		defer context.AfterFunc(ctx, func() { n.abandon("it did not answer in time") })()
		err = s.introduce(n, s.hello())
	}
	n.facts.Endpoint, n.addresses = before.facts.Endpoint, before.addresses
	return err
}

func (s *session) explainNoRestart(r *job.Result, n *node, err error) {
	lines := []string{n.name + " is lost"}
	if r.Cause == job.CauseNode {
		lines[0] = r.Text
	}
	r.Hint = ""
	for _, e := range flatten(err) {
		lines = append(lines, "no restart: "+e.Text)
		r.Hint = cmp.Or(r.Hint, e.Hint)
	}
	r.Cause, r.ExitCode, r.Text = job.CauseNode, job.ExitLauncher, strings.Join(lines, "\n")
}
