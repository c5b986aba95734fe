package agent

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// signals records signals sent while ranks are being started, to replay them to ranks that did not exist yet.
type signals struct {
	mu         sync.Mutex    // guards the next three
	starting   int           // number of pending starts
	sent       []spec.Signal // while starting > 0
	suspending bool          // the head waits for an answer until starting is 0

	killed       atomic.Bool               // SIGKILLs may be our own
	firstRequest atomic.Pointer[time.Time] // of an end; atomic, as a spawner thread must not wait for mu
	engine       *engineSignals            // sent by a resource manager
	filesNoted   atomic.Bool               // before a SIGTERM
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

func (j *job) onSignal(s wire.Signal) {
	if s.Agent || s.Ranks != nil {
		j.inject(s)
	} else {
		j.signal(s.Signal)
	}
}

// signal delivers a signal to the ranks. Signals to their process groups, except for SIGSTOP and SIGCONT, request them
// to end.
func (j *job) signal(s spec.Signal) {
	ends := s.Group && s.Number != syscall.SIGSTOP && s.Number != syscall.SIGCONT
	if ends {
		if s.Number == syscall.SIGTERM {
			j.signals.filesNoted.Store(true)
		}
		j.mpi.noteMappedFiles()
	} else if s.Group {
		j.mpi.suspend(s.Number == syscall.SIGSTOP)
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	if j.signals.starting > 0 && len(j.signals.sent) < maxSignals {
		j.signals.sent = append(j.signals.sent, s)
	}
	if ends {
		j.signals.requestEnd()
		j.display.hurryUp(0)
		if j.signals.starting == 0 && j.signals.engine.has(s.Number) {
			return
		}
	}
	j.deliver(s, j.rows())
}

// suspend stops the ranks. The head may then stop this very process, so it gets the answer when ranks that are being
// started have stopped, too.
func (j *job) suspend() error {
	j.agent.lease.pause()
	j.signal(spec.Signal{Number: syscall.SIGSTOP, Group: true})
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	if j.signals.suspending = j.signals.starting > 0; j.signals.suspending {
		return nil
	}
	return j.agent.link.Send(&wire.Suspend{})
}

// inject does a fault of --chaos. A process that is more than an agent of this job spares itself.
func (j *job) inject(s wire.Signal) {
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	other := func(r wire.Row) bool { return !slices.Contains(s.Ranks, r.Rank) }
	j.deliver(s.Signal, slices.DeleteFunc(slices.Clone(j.rows()), other))
	if cfg := &j.agent.cfg; s.Agent && cfg.Link != nil && cfg.Joined == nil {
		_ = syscall.Kill(os.Getpid(), s.Number)
	}
}

func (j *job) deliver(s spec.Signal, rows []wire.Row) {
	var wrapped []int
	for _, row := range rows {
		id, r := row.Rank, j.rank(row.Rank)
		switch {
		case r == nil, r.pid.Load() == 0:
		case s.LeadersFirst:
			r.helpers.Store(true)
			if pid := int(r.pid.Load()); process.LeavesWork(pid) {
				wrapped = append(wrapped, pid)
			} else {
				_ = j.group.SignalProcess(id, s.Number)
			}
		case s.Group:
			_ = j.group.Signal(id, s.Number) // it may have exited
		default:
			_ = j.group.SignalProcess(id, s.Number)
		}
	}
	signalLeaders(wrapped, s.Number)
}

// signalLeaders signals the leaders in the sessions of ranks.
func signalLeaders(pids []int, sig syscall.Signal) {
	if len(pids) == 0 {
		return
	}
	members, _ := process.Members(pids)
	for _, procs := range members {
		for _, p := range process.Leaders(procs) {
			_ = p.Signal(sig) // it may have exited
		}
	}
}

// passOn sends SIGTERM to what an ended rank has left, if the rank got a signal to end and its helpers did not. Ranks
// tend to end together, and one look at all processes is for all of them.
func (j *job) passOn(r *rank) {
	if !r.helpers.Load() || j.passingOn.Swap(true) {
		return
	}
	j.timers.after(passOnDelay, func() {
		j.passingOn.Store(false)
		signalLeaders(j.takeHelpers(true), syscall.SIGTERM)
	})
}

// takeHelpers returns the ranks, ended or running, whose helpers have still to get the signal that their leaders got.
// The caller sends it.
func (j *job) takeHelpers(ended bool) (pids []int) {
	for _, r := range j.roster.Load().ranks {
		if ended == (r.end.Load() != nil) && r.helpers.Swap(false) {
			pids = append(pids, int(r.pid.Load()))
		}
	}
	return pids
}

// timeOver kills the ranks, after a last call to the helpers of those that have used up the time they had to end.
func (j *job) timeOver() {
	called := false
	if late := j.takeHelpers(false); len(late) > 0 {
		members, _ := process.Members(late)
		for rank, procs := range members {
			for _, p := range procs {
				called = p.PID != rank && p.Signal(syscall.SIGTERM) == nil || called
			}
		}
	}
	if called {
		j.timers.after(process.LastCall, j.kill)
	} else {
		j.kill()
	}
}

// kill kills every process of the job on this node.
func (j *job) kill() {
	if !j.signals.filesNoted.Load() {
		j.mpi.noteMappedFiles()
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	j.signals.killed.Store(true)
	j.signals.requestEnd()
	j.display.hurryUp(0)
	j.deliver(spec.Signal{Number: syscall.SIGKILL, Group: true}, j.rows())
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
		j.deliver(spec.Signal{Number: syscall.SIGKILL, Group: true}, rows)
	}
	if j.signals.starting--; j.signals.starting > 0 {
		return
	}
	j.signals.sent = nil
	if j.signals.suspending {
		j.signals.suspending = false
		_ = j.agent.link.Send(&wire.Suspend{}) // the head may be gone
	}
}
