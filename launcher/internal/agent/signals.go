package agent

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/wire"
)

// signals records signals sent while ranks are being started, to replay them to ranks that did not exist yet.
type signals struct {
	mu       sync.Mutex    // guards starting and sent
	starting int           // number of pending starts
	sent     []wire.Signal // while starting > 0

	killed       atomic.Bool               // SIGKILLs may be our own
	firstRequest atomic.Pointer[time.Time] // of an end; atomic, as a spawner thread must not wait for mu
	engine       *engineSignals            // sent by a resource manager
	filesNoted   bool                      // before a SIGTERM; owned by the agent's loop
}

// requestEnd notes that ranks are requested to end. Call it before they get the signal.
func (s *signals) requestEnd() {
	now := time.Now()
	s.firstRequest.CompareAndSwap(nil, &now)
}

// endRequestedAt returns when ranks were first requested to end; zero: never.
func (s *signals) endRequestedAt() time.Time {
	if at := s.engine.endRequestedAt(); !at.IsZero() {
		return at
	}
	if at := s.firstRequest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// signal delivers a signal to the ranks. Signals to their process groups, except for SIGSTOP and SIGCONT, request them
// to end.
func (j *job) signal(s wire.Signal) {
	ends := s.Group && s.Signal != syscall.SIGSTOP && s.Signal != syscall.SIGCONT
	if ends {
		j.signals.filesNoted = j.signals.filesNoted || s.Signal == syscall.SIGTERM
		j.mpi.noteMappedFiles()
	} else if s.Group {
		j.mpi.suspend(s.Signal == syscall.SIGSTOP)
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	if j.signals.starting > 0 && len(j.signals.sent) < maxSignals {
		j.signals.sent = append(j.signals.sent, s)
	}
	if ends {
		j.signals.requestEnd()
		j.display.hurryUp()
		if j.signals.starting == 0 && j.signals.engine.has(s.Signal) {
			return
		}
	}
	j.deliver(s, j.rows())
}

func (j *job) deliver(s wire.Signal, rows []wire.Row) {
	for _, row := range rows {
		id, r := row.Rank, j.rank(row.Rank)
		switch {
		case r == nil, r.pid.Load() == 0:
		case s.Group:
			_ = j.group.Signal(id, s.Signal) // it may have exited
		default:
			_ = j.group.SignalProcess(id, s.Signal)
		}
	}
}

// kill kills every process of the job on this node.
func (j *job) kill() {
	if !j.signals.filesNoted {
		j.mpi.noteMappedFiles()
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	j.signals.killed.Store(true)
	j.signals.requestEnd()
	j.display.hurryUp()
	j.deliver(wire.Signal{Signal: syscall.SIGKILL, Group: true}, j.rows())
	if !j.killSweep.Swap(true) {
		t := j.sessions() // without Known: ranks being started would be mistaken for orphans
		go func() {
			defer j.killSweep.Store(false)
			t.KillAll(killTimeout)
		}()
	}
}

// begin starts recording and returns the index of the next signal, for replay.
func (s *signals) begin() (first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting++
	return len(s.sent)
}

// replaySignals delivers to new ranks what was sent since begin returned first.
func (j *job) replaySignals(rows []wire.Row, first int) {
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	for _, s := range j.signals.sent[first:] {
		j.deliver(s, rows)
	}
	if j.signals.killed.Load() {
		j.deliver(wire.Signal{Signal: syscall.SIGKILL, Group: true}, rows)
	}
	if j.signals.starting--; j.signals.starting == 0 {
		j.signals.sent = nil
	}
}
