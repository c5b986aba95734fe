package job

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// EngineSignalled: the resource manager that started the agents has sent a signal to a node's agent and ranks.
type EngineSignalled struct {
	Signal syscall.Signal
	At     time.Time
}

// EngineStopping: the resource manager reports that it is ending the job.
type EngineStopping struct{ At time.Time }

func (EngineSignalled) event() {}
func (EngineStopping) event()  {}

// Times that tell what a resource manager does from what ranks or users do.
const (
	// engineDelay is how much later than the first process of a job its agents, and so the head, may get a signal.
	engineDelay = time.Second
	// engineExitDelay is the same for processes that ended with an exit code.
	engineExitDelay = 100 * time.Millisecond
	// engineTermDelay is how long a SIGTERM to the launcher may be the first sign of one that the resource manager
	// sends to all processes.
	engineTermDelay = 200 * time.Millisecond
)

// engineSignalled forwards nothing: ranks have got the signal.
func (s *Supervisor) engineSignalled(ev EngineSignalled) []Order {
	switch {
	case ev.Signal == s.cfg.Preempt:
		return s.preempt(ev.At, true)
	case Ends(ev.Signal):
		return s.stopByEngine(ev.Signal, ev.At)
	case ev.Signal == syscall.SIGCONT, ev.Signal == syscall.SIGTSTP, slices.Contains(s.engineSignals, ev.Signal):
		return nil
	}
	s.engineSignals = append(s.engineSignals, ev.Signal)
	name, _ := s.cfg.SignalName(ev.Signal)
	return []Order{Note{fmt.Sprintf("%s sends %s to the ranks", s.cfg.Engine, name)}}
}

// stopByEngine gives the job its grace without a signal of the launcher, which follows later for ranks that the
// resource manager's did not reach. What that signal has ended already is no failure.
func (s *Supervisor) stopByEngine(sig syscall.Signal, at time.Time) []Order {
	began := s.engineBegan(at)
	switch {
	case s.phase == phaseRunning:
		s.signal = sig
		return awaitSignal(s.stop(CauseEngine, sig, began))
	case s.cause == CauseRank && s.stoppedAt.After(began),
		s.cause == CauseSignal && s.signal == sig && at.Sub(s.stoppedAt) < engineDelay:
		s.cause, s.signal, s.stoppedAt = CauseEngine, sig, began
	}
	return nil
}

// awaitSignal replaces the launcher's signal, which the resource manager has sent.
func awaitSignal(orders []Order) []Order {
	for i, o := range orders {
		if _, ok := o.(Signal); ok {
			orders[i] = Arm{TimerEngine, engineDelay}
		}
	}
	return orders
}

// engineBegan is when a resource manager began to end the job, if the head learned it at a moment: before the first
// exit that its signals caused.
func (s *Supervisor) engineBegan(at time.Time) time.Time {
	began := at
	for _, r := range s.ranks {
		if r != nil && s.endedByEngine(r, at) && !r.exit.At.After(began) {
			began = r.exit.At.Add(-1)
		}
	}
	return began
}

// endedByEngine reports whether a resource manager, whose signal the head learned of at a moment, ended a rank.
func (s *Supervisor) endedByEngine(r *rankState, at time.Time) bool {
	if r.exit == nil || !r.failed() {
		return false
	}
	before := at.Sub(r.exit.At)
	return before < engineExitDelay || before < engineDelay && s.maybeEngine(r)
}

// maybeEngine reports whether a resource manager's signal may have ended a rank.
func (s *Supervisor) maybeEngine(r *rankState) bool {
	e := r.exit
	return s.cfg.Engine != "" && (e.Signal == syscall.SIGTERM || e.Signal == syscall.SIGINT ||
		e.Signal == syscall.SIGKILL && e.OOM+e.Timer == "")
}

// engineExpired sends the signal to ranks that the resource manager's has not reached, or stops the job if only the
// launcher got one: then somebody else sent it.
func (s *Supervisor) engineExpired() []Order {
	switch {
	case s.pending != nil && s.phase == phaseRunning:
		return s.stopBySignal(*s.pending)
	case (s.cause == CauseEngine || s.cause == CausePreempted) && s.phase == phaseStopping && s.ranksLeft():
		return []Order{stopSignal(s.stopSignal)}
	}
	return nil
}

// awaitEngine waits for agents to report that they and their ranks got the launcher's SIGTERM, too.
func (s *Supervisor) awaitEngine(ev Signalled) []Order {
	if s.pending != nil {
		return nil
	}
	s.pending = &ev
	return []Order{Arm{TimerEngine, engineTermDelay}}
}

// SetEngine makes a resource manager the cause of a result where it may have ended the job and says why; "" if it says
// nothing. job names its job.
func (r *Result) SetEngine(engine, job, why string) {
	if why != "" && r.MaybeByEngine() {
		r.Cause, r.Signal, r.ExitCode = CauseEngine, syscall.SIGTERM, 128+int(syscall.SIGTERM)
		r.First, r.Hint = nil, ""
	}
	if r.Cause != CauseEngine {
		return
	}
	r.Text = fmt.Sprintf("stopped by %s, which sent %s (%s)", engine, r.SignalName, job)
	if why != "" {
		r.Text = fmt.Sprintf("killed by %s: %s (%s)", engine, why, job)
	}
}

// MaybeByEngine reports whether a resource manager may have ended the job without notice: a node was lost, or the rank
// that failed first was ended by a signal that resource managers send.
func (r *Result) MaybeByEngine() bool {
	return r.Cause == CauseNode ||
		r.Cause == CauseRank && r.First != nil && r.First.Abort == nil &&
			(r.First.Signal == syscall.SIGTERM || r.First.Signal == syscall.SIGKILL && r.First.OOM+r.First.Timer == "")
}
