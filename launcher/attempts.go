package launcher

import (
	"cmp"
	"context"
	"errors"
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
			s.countMembers(lost, came, &budget)
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
		before = append(before, job.NewAttempt(s.ids.Attempt, &result, useful, checkpointed, diagnosis.SignalName))
		next := fmt.Sprintf("restart %d of %d", budget.Used, budget.Max)
		if checkpointed || result.Cause == job.CauseJoined || len(lost) > 0 && budget.NodeLosses > 0 {
			next = fmt.Sprintf("attempt %d", s.ids.Attempt+1)
		}
		s.reportRestart(before[len(before)-1].Summary(), result.Cause, next, delay, leaving)
		if result.Cause == job.CauseJoined {
			result.Text = ""
		}
		s.grow()
		s.monitor.setPaused(true)
		if !s.awaitRestart(ctx, delay, returning, earlier, began, &result) {
			return s.endIdle(result, before, began), nil
		}
		if s.preempted() {
			continue
		}
		s.ids.Elapsed = time.Since(began)
		if err := s.replan(len(lost)+came > 0); err != nil {
			if len(lost) == 0 {
				return result, err
			}
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
	h.members, h.left, h.generation = s.nodes, s.left, s.generation
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
	if m := s.spec.MinNodes; m > 0 && b.NodeLosses == 0 {
		b.NodeLosses = len(s.nodes) - m
	}
	return b
}

// countMembers records the failures of lost nodes and admits others. Unless the user limits losses, each node above the
// minimum may be lost, those that came later or are back too, and others if the job waits for them.
func (s *session) countMembers(lost []*node, ready int, budget *job.RestartBudget) {
	for _, n := range lost {
		s.recordFailure(n, n.lossText(n.err))
	}
	joins := s.listener != nil && s.spec.MinNodes > 0
	if joins {
		s.admit(len(lost))
	}
	switch {
	case s.spec.Restarts.NodeLosses > 0:
	case !joins:
		budget.NodeLosses += ready
	default:
		most := len(s.nodes) - s.spec.MinNodes
		if s.awaitsMembers() {
			most = max(most, len(lost))
		}
		budget.NodeLosses = budget.Lost + most
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

// reportRestart has nodes leave the job, and says how an attempt ended and what is next.
func (s *session) reportRestart(text string, cause job.Cause, next string, delay time.Duration, leaving []*node) {
	for i, n := range leaving {
		if cause != job.CauseNode || i > 0 {
			text += "; " + n.name + " is lost, too"
		}
		text += "; " + s.leave(n, s.spares())
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
	endedBy := func(cause job.Cause, sig syscall.Signal) {
		r.Cause, r.Signal, r.ExitCode, r.Text = cause, sig, 128+int(sig), ""
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
			endedBy(job.CauseEngine, syscall.SIGTERM)
			r.SetSignalNames(diagnosis.SignalName)
			s.engine.attribute(r, false)
			return false
		case <-deadline:
			r.Cause, r.ExitCode = job.CauseTimeout, cmp.Or(s.spec.TimeoutCode, job.ExitTimeout)
			return false
		case <-ctx.Done():
			r.Cause, r.ExitCode = job.CauseCancelled, 128+int(syscall.SIGTERM)
			return false
		case w := <-s.monitor.stopRequests():
			endedBy(job.CauseSignal, w.signal)
			return false
		case <-s.preemption.announced:
			return true
		case sig := <-s.signals.received:
			number, ok := sig.(syscall.Signal)
			if ok && job.Ends(number) {
				endedBy(job.CauseSignal, number)
				return false
			}
			s.preemption.isNotice(number)
		}
	}
}

// replan plans the next attempt, with an empty store and, after losses, with another marker.
func (s *session) replan(newAgents bool) error {
	s.ids.Attempt++
	if newAgents {
		if err := s.renewMarker(); err != nil {
			return err
		}
	}
	if err := s.checkNodes(); err != nil {
		return err
	}
	if s.membersChanged {
		s.generation++
		s.dropIdle()
		if err := s.meet(); err != nil {
			return err
		}
	}
	opened, err := s.openStore()
	if err != nil {
		return err
	}
	return s.makePlan(opened)
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
	return n.kind == wire.PeerSSH && n.abandoned.Load() == nil && !errors.As(n.err, new(*wire.ViolationError))
}

// reconnectAfter waits for the delay, then starts new agents on the hosts of lost nodes.
func (s *session) reconnectAfter(ctx context.Context, delay time.Duration, lost []*node) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if len(lost) == 0 {
		return nil
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
		err = n.send(s.helloFor(n, s.hello()))
	}
	if err == nil {
		err = s.receiveFacts(n)
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
