package launcher

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// signals are this process's signals, on their way to the job.
type signals struct {
	received chan os.Signal
	hold     func() // keeps signals until listen; only the first call counts
	listen   func() // subscribes; only the first call counts
}

// More pending signals are dropped, as the kernel does.
const signalBurst = 16

func newSignals(s *settings) *signals {
	received := make(chan os.Signal, signalBurst)
	return &signals{received, sync.OnceFunc(s.HoldSignals), sync.OnceFunc(func() { s.Signals(received) })}
}

// listenDelay defers signal.Notify, which costs two threads and dozens of wake-ups that a job need not
// pay if it ends earlier. Signals are held meanwhile.
const listenDelay = 20 * time.Millisecond

// onSignal handles a signal that a joined node's gorun received.
func (h *head) onSignal(n *node, m wire.Signal) error {
	switch sig := m.Number; {
	case sig <= 0 || sig > maxSignal || slices.Contains(neverForwarded, sig):
		return wire.Violation("it forwarded signal %d, which no gorun forwards", int(sig))
	case n.kind == wire.PeerUnauthenticated && !job.Ends(sig): // it may end the job, as its loss does
		return nil
	case job.Ends(sig) && h.spec.MinNodes > 0: // it alone is to end
		name, _ := diagnosis.SignalName(sig)
		n.dismiss(128+int(sig), "its gorun received "+name)
		return nil
	case job.Ends(sig) && !h.spec.IsTask():
		name, _ := diagnosis.SignalName(sig)
		n.notify("its gorun received " + name)
	}
	h.post(job.Signalled{Signal: m.Number, At: time.Now()})
	return nil
}

// maxSignal is Linux's last signal.
const maxSignal = 64

// neverForwarded lists signals that cannot be forwarded, or that a gorun handles itself.
var neverForwarded = []syscall.Signal{
	syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH,
}

func (h *head) forwardSignal(s os.Signal) {
	if s == syscall.SIGWINCH {
		h.resize()
	}
	sig, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case !h.engineSignalsRanks() || job.Ends(sig):
		h.post(job.Signalled{Signal: sig, At: time.Now()})
	case h.preemption.isNotice(sig):
		h.post(job.EngineSignalled{Signal: sig, At: time.Now()})
	}
	if h.preemption.isNotice(sig) {
		h.queryTimeLeft()
	}
}

// preemption is the notice of the job's end (--preempt-signal).
type preemption struct {
	signal    syscall.Signal // 0: none
	announced chan struct{}  // closed by the first; never if the job goes on here from a checkpoint
	announce  func()
}

func newPreemption(spec *Spec) preemption {
	p := preemption{unix.SignalNum(spec.PreemptSignal), make(chan struct{}), func() {}}
	if spec.Scheduler != nil || len(spec.Restarts.OnCodes) == 0 {
		p.announce = sync.OnceFunc(func() { close(p.announced) })
	}
	return p
}

// isNotice reports whether a signal is the notice, which ends the job even if no ranks run.
func (p *preemption) isNotice(sig syscall.Signal) bool {
	is := sig != 0 && sig == p.signal
	if is {
		p.announce()
	}
	return is
}

// preempted reports whether no attempt is to follow a notice.
func (s *session) preempted() bool {
	for range len(s.signals.received) {
		sig := <-s.signals.received
		if number, ok := sig.(syscall.Signal); ok && s.preemption.isNotice(number) {
			continue
		}
		select {
		case s.signals.received <- sig:
		default: // others have come
		}
	}
	select {
	case <-s.preemption.announced:
		return true
	default:
		return false
	}
}

// reportedSignals returns this process's signals from now on.
func (c *call) reportedSignals() <-chan syscall.Signal {
	if c.settings.Signals == nil {
		return nil
	}
	received, numbers := make(chan os.Signal, signalBurst), make(chan syscall.Signal, signalBurst)
	c.settings.Signals(received)
	go func() {
		for sig := range received {
			if number, ok := sig.(syscall.Signal); ok {
				numbers <- number
			}
		}
	}()
	return numbers
}

// forwardSignals passes signals to this node's agent until over is closed. What follows gets one that ends the job once
// more: a node 0 that is lost has not answered it.
func (s *session) forwardSignals(to chan<- syscall.Signal, over <-chan struct{}) {
	var end chan<- os.Signal
	var last os.Signal
	for {
		select {
		case <-over:
			select {
			case end <- last:
			default:
			}
			return
		case sig := <-s.signals.received:
			number, ok := sig.(syscall.Signal)
			if !ok || number == syscall.SIGWINCH || number == syscall.SIGTSTP || number == syscall.SIGCONT ||
				s.spec.Join.EngineSignals && !job.Ends(number) {
				continue
			}
			if job.Ends(number) {
				end, last = s.signals.received, sig
			}
			select {
			case to <- number:
			case <-over:
			}
		}
	}
}

// engineSignals reports whether ranks receive by themselves signals that come to this process.
func (h *head) engineSignalsRanks() bool { return h.spec.Join != nil && h.spec.Join.EngineSignals }
