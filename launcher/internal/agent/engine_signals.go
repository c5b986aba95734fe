package agent

import (
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/wire"
)

// Engine is whose signals an agent gets.
type Engine uint8

// The engines.
const (
	// NoEngine: those of the user, for the head.
	NoEngine Engine = iota
	// EngineSignalsAgents: those of a resource manager, which ranks do not get.
	EngineSignalsAgents
	// EngineSignalsAll: those of a resource manager that signals every process.
	EngineSignalsAll
)

// engineSignals are those that a resource manager has sent to this agent, and that ranks
// have as well.
type engineSignals struct {
	mu          sync.Mutex
	sent        map[syscall.Signal]bool
	requestedAt time.Time // when one of them first asked ranks to end
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

// endsRanks reports whether programs take a signal for a wish that they end.
func endsRanks(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGHUP
}

// has reports whether ranks have got a signal already. One that ends them they need not
// get twice: some take the second for impatience.
func (e *engineSignals) has(sig syscall.Signal) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent[sig] && endsRanks(sig)
}

// askedAt is when ranks were first asked to end, zero if they were not.
func (e *engineSignals) endRequestedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requestedAt
}

// reportSignals tells the head what a resource manager sends, and ranks have it when the
// head hears of it.
func (a *Agent) reportSignals() {
	for {
		select {
		case <-a.lease.linkClosed:
			return
		case sig := <-a.cfg.Signals:
			now := time.Now()
			if j := a.active.Load(); j != nil && a.cfg.Engine == EngineSignalsAgents && sig != syscall.SIGCONT &&
				sig != syscall.SIGTSTP {
				j.signal(wire.Signal{Signal: sig, Group: endsRanks(sig)})
			}
			a.engine.add(sig, now)
			_ = a.link.Send(&wire.Signalled{Signal: sig, At: now})
		}
	}
}
