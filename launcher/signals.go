package launcher

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// signals are those to this process that the job hears.
type signals struct {
	received chan os.Signal
	hold     func() // keeps them until listen, once
	listen   func() // subscribes to them, once
}

// signalBurst is how many signals may wait to be looked at; more are lost, as the kernel loses them.
const signalBurst = 16

func newSignals(s *settings) *signals {
	came := make(chan os.Signal, signalBurst)
	return &signals{came, sync.OnceFunc(func() {
		if s.hold != nil {
			s.hold()
		}
	}), sync.OnceFunc(func() {
		if s.subscribe != nil {
			s.subscribe(came)
		}
	})}
}

// Signals are subscribed to when ranks are there to hear of them: so much later than
// the last was started, and so much later than that was ordered if it takes long.
// signal.Notify costs two threads and dozens of wake-ups, which are spared a job that is
// over by then. A program takes longer than that to start and do something by
// which others learn that it is there.
const (
	listenAfterStart = 700 * time.Microsecond
	listenDelay      = 3 * time.Millisecond
)

// signalledAt hears of a signal that came to the gorun of a node which joined.
func (h *head) onSignal(n *node, m wire.Signal) error {
	switch sig := m.Signal; {
	case sig <= 0 || sig > maxSignal || slices.Contains(neverForwarded, sig):
		return wire.Violation("it passes on signal %d, which no gorun passes on", int(sig))
	case n.kind == wire.PeerUnauthenticated && !job.Ends(sig): // as every node that is lost it ends the job, and no more
		return nil
	case job.Ends(sig) && !h.spec.IsTask():
		name, _ := diagnosis.SignalName(sig)
		n.notify("its gorun got " + name)
	}
	h.post(job.Signalled{Signal: m.Signal, At: time.Now()})
	return nil
}

// maxSignal is the last one of Linux; neverPassed are what no process gets, and what a gorun keeps
// to itself.
const maxSignal = 64

var neverForwarded = []syscall.Signal{
	syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH,
}

func (h *head) forwardSignal(s os.Signal) {
	if s == syscall.SIGWINCH {
		h.resize()
	}
	if sig, ok := s.(syscall.Signal); ok && (!h.engineSignalsRanks() || job.Ends(sig)) {
		h.post(job.Signalled{Signal: sig, At: time.Now()})
	}
}

// reportedSignals are those that this process gets from now on.
func (c *call) reportedSignals() <-chan syscall.Signal {
	if c.settings.subscribe == nil {
		return nil
	}
	heard, numbers := make(chan os.Signal, signalBurst), make(chan syscall.Signal, signalBurst)
	c.settings.subscribe(heard)
	go func() {
		for sig := range heard {
			if number, ok := sig.(syscall.Signal); ok {
				numbers <- number
			}
		}
	}()
	return numbers
}

func (s *session) forwardSignals(to chan<- syscall.Signal, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case sig := <-s.signals.received:
			number, ok := sig.(syscall.Signal)
			if !ok || number == syscall.SIGWINCH || number == syscall.SIGTSTP || number == syscall.SIGCONT ||
				s.spec.Join.EngineSignals && !job.Ends(number) {
				continue
			}
			select {
			case to <- number:
			case <-over:
				return
			}
		}
	}
}

// engineSignals reports whether ranks hear by themselves of signals that come to this process.
func (h *head) engineSignalsRanks() bool { return h.spec.Join != nil && h.spec.Join.EngineSignals }
