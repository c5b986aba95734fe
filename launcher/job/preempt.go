package job

import "time"

// GraceKnown: the resource manager says how much time ranks have left to stop.
type GraceKnown struct{ Grace time.Duration }

func (GraceKnown) event() {}

func (s *Supervisor) graceKnown(ev GraceKnown) []Order {
	if s.phase != phaseStopping {
		return nil
	}
	s.cfg.Grace = ev.Grace
	return []Order{Arm{TimerGrace, ev.Grace}}
}

// preempt sends ranks the notice of the end, unless the resource manager has. They save what they need, and end by
// themselves.
func (s *Supervisor) preempt(at time.Time, sent bool) []Order {
	if s.phase != phaseRunning {
		return nil
	}
	s.signal = s.cfg.Preempt
	orders := s.stop(CausePreempted, s.signal, at)
	if sent {
		orders = awaitSignal(orders)
	}
	name, _ := s.cfg.SignalName(s.signal)
	return append([]Order{Note{name + " announces the end of the job: ranks save and exit"}}, orders...)
}

// endsByItself reports whether a rank that ends now does so by itself: because nobody stopped it, or after a notice.
func (s *Supervisor) endsByItself() bool {
	return s.phase == phaseRunning || s.phase == phaseStopping && s.cause == CausePreempted
}
