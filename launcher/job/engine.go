package job

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// EngineSignalled: the resource manager that started the agents has sent a signal to a
// node's, and to its ranks as well.
type EngineSignalled struct {
	Signal syscall.Signal
	At     time.Time
}

// EngineStopping: the resource manager says that it ends the job.
type EngineStopping struct{ At time.Time }

func (EngineSignalled) event() {}
func (EngineStopping) event()  {}

// Times by which what a resource manager does is told from what ranks or people do.
const (
	// engineDelay is how much later than the first process of a job its agents, and by
	// them the head, may hear of a signal.
	engineDelay = time.Second
	// engineHaste is the same of processes that ended by a code of their own.
	engineHaste = 100 * time.Millisecond
	// engineTerm is how long a SIGTERM to the launcher may be the first that is heard of
	// one that the resource manager sends to all.
	engineTerm = 200 * time.Millisecond
)

// engineSignalled: a signal that ends jobs ends this one. Any other was for the ranks, and
// they have it.
func (s *Supervisor) engineSignalled(ev EngineSignalled) []Order {
	switch {
	case Ends(ev.Signal):
		return s.endByEngine(ev.Signal, ev.At)
	case ev.Signal == syscall.SIGCONT, ev.Signal == syscall.SIGTSTP, slices.Contains(s.byEngine, ev.Signal):
		return nil
	}
	s.byEngine = append(s.byEngine, ev.Signal)
	name, _ := s.cfg.SignalName(ev.Signal)
	return []Order{Note{fmt.Sprintf("%s sends %s to the ranks", s.cfg.Engine, name)}}
}

// endByEngine: ranks have been asked to end by somebody else. They get the job's grace,
// and those that did not hear of it are told later; what the signal has already done to
// some is no failure of theirs.
func (s *Supervisor) endByEngine(sig syscall.Signal, at time.Time) []Order {
	began := s.engineBegan(at)
	switch {
	case s.phase == phaseRunning:
		s.signal = sig
		orders := s.stop(CauseEngine, sig, began)
		for i, o := range orders {
			if _, ok := o.(Signal); ok {
				orders[i] = Arm{TimerEngine, engineDelay}
			}
		}
		return orders
	case s.cause == CauseRank && s.stoppedAt.After(began), s.cause == CauseSignal && s.signal == sig &&
		at.Sub(s.stoppedAt) < engineDelay:
		s.cause, s.signal, s.stoppedAt = CauseEngine, sig, began
	}
	return nil
}

// engineBegan is when a resource manager began to end the job of which the head learned
// at some moment: before the first rank ended that its signals have ended.
func (s *Supervisor) engineBegan(at time.Time) time.Time {
	began := at
	for _, e := range s.exits {
		if s.endedByEngine(e, at) && !e.At.After(began) {
			began = e.At.Add(-1)
		}
	}
	return began
}

// endedByEngine reports whether a rank's end is the doing of a resource manager of which
// the head learned at some moment.
func (s *Supervisor) endedByEngine(e *Exited, at time.Time) bool {
	before := at.Sub(e.At)
	return e.failed() && (before < engineHaste || before < engineDelay && s.maybeEngine(e))
}

// maybeEngine reports whether a resource manager's signal may have ended a rank.
func (s *Supervisor) maybeEngine(e *Exited) bool {
	return s.cfg.Engine != "" && (e.Signal == syscall.SIGTERM || e.Signal == syscall.SIGINT ||
		e.Signal == syscall.SIGKILL && e.OOM+e.Timer == "")
}

// engineExpired: whoever has not heard of the resource manager's signal hears of it now;
// or nobody but the launcher did, to whom somebody else has sent it.
func (s *Supervisor) engineExpired(at time.Time) []Order {
	switch {
	case s.pending != nil && s.phase == phaseRunning:
		return s.endSignal(*s.pending)
	case s.cause == CauseEngine && s.phase == phaseAsked && s.ranksLeft():
		return []Order{Signal{Signal: s.asked, Group: true}}
	}
	return nil
}

// awaitEngine waits, before the launcher's SIGTERM is passed on, for the agents to say
// that they and their ranks have got it, too.
func (s *Supervisor) awaitEngine(ev Signalled) []Order {
	if s.pending != nil {
		return nil
	}
	s.pending = &ev
	return []Order{Arm{TimerEngine, engineTerm}}
}

// SetEngine says of a job that a resource manager has ended it, where that was not known
// while it ran: why is what the manager says, "" for nothing.
func (r *Result) SetEngine(engine, job, why string) {
	if why != "" && r.MaybeByEngine() {
		r.Cause, r.Signal, r.ExitCode = CauseEngine, syscall.SIGTERM, 128+int(syscall.SIGTERM)
		r.First, r.Hint = nil, ""
	}
	if r.Cause != CauseEngine {
		return
	}
	r.Text = fmt.Sprintf("ended by %s, which sent %s (%s)", engine, r.SignalName, job)
	if why != "" {
		r.Text = fmt.Sprintf("killed by %s: %s (%s)", engine, why, job)
	}
}

// MaybeByEngine reports whether a resource manager may have ended the job though nobody has
// said so: a node was lost, or the rank that failed first was ended by a signal that
// resource managers end jobs with.
func (r *Result) MaybeByEngine() bool {
	return r.Cause == CauseNode ||
		r.Cause == CauseRank && r.First != nil && r.First.Abort == nil &&
			(r.First.Signal == syscall.SIGTERM || r.First.Signal == syscall.SIGKILL && r.First.OOM+r.First.Timer == "")
}
