package agent

import (
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// Engine says where an agent's signals come from.
type Engine uint8

const (
	// NoEngine means the user; the signals are for the head.
	NoEngine Engine = iota
	// EngineSignalsAgents means a resource manager that signals agents, but not ranks.
	EngineSignalsAgents
	// EngineSignalsAll means a resource manager that signals every process.
	EngineSignalsAll
)

// engineSignals are signals that a resource manager has sent to this agent and the ranks. It is safe for concurrent
// use.
type engineSignals struct {
	mu          sync.Mutex
	sent        map[syscall.Signal]bool
	requestedAt time.Time // when the first of them requested ranks to end; zero: never
}

func (e *engineSignals) add(sig syscall.Signal, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sent == nil {
		e.sent = map[syscall.Signal]bool{}
	}
	e.sent[sig] = true
	if e.requestedAt.IsZero() && endsRanks(sig) {
		e.requestedAt = at
	}
}

// endsRanks reports whether a signal requests programs to end.
func endsRanks(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGHUP
}

// has reports whether ranks have already got a signal that requests or announces their end. They must not get it twice,
// as some programs abort on the second.
func (e *engineSignals) has(sig syscall.Signal) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent[sig]
}

func (e *engineSignals) endRequestedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requestedAt
}

// reportSignals reports a resource manager's signals to the head, after the ranks have got them.
func (a *Agent) reportSignals() {
	for {
		select {
		case <-a.lease.linkClosed:
			return
		case sig := <-a.cfg.Signals:
			now := time.Now()
			if j := a.active.Load(); j != nil { // later ranks need the head's signal
				if a.cfg.Engine == EngineSignalsAgents && sig != syscall.SIGCONT && sig != syscall.SIGTSTP {
					j.signal(spec.Signal{Number: sig, Group: endsRanks(sig)})
				}
				a.engine.add(sig, now)
			}
			_ = a.link.Send(&wire.Signalled{Signal: sig, At: now})
		}
	}
}
