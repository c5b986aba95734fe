package agent

import (
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// sink receives what happens to the ranks, on the threads that started them.
type sink job

func (s *sink) Started(id, pid int) {
	s.rank(id).pid.Store(int32(pid))
	s.guard.AddRank(pid)
}

// Output passes bytes on, also into a file, and stops the reading of a stream
// whose credit is used up.
func (s *sink) Output(id, stream int, p []byte) {
	s.printed.Add(int64(len(p)))
	if s.logs != nil {
		if tee := s.tee(id, stream); tee != nil {
			s.credit.take(stream, len(p)) // given back when it is on disk
			_, _ = tee.Write(p)           // never fails: a broken disk is reported once
		}
	}
	r := s.rank(id)
	r.printed.Add(int64(len(p)))
	if q := r.query.Load(); q != nil {
		q.output(stream, p)
		return
	}
	s.mpi.printed(id, stream, p)
	(*job)(s).pass(id, stream, p)
}

// pass shows bytes to the user, here or at the head.
func (j *job) pass(id, stream int, p []byte) {
	if j.display != nil && !j.display.hidden.Has(stream) {
		j.credit.take(stream, len(p))
		j.display.Write(id, stream, p)
	}
	if j.display != nil && !j.start.Stdio.Forward {
		return
	}
	j.credit.take(stream, len(p))
	_ = j.agent.link.Output(id, stream, p) // without a head there is nobody to tell
}

func (s *sink) Closed(id, stream int) {
	if s.logs != nil {
		if tee := s.tee(id, stream); tee != nil {
			_ = tee.Close()
		}
	}
	if q := s.rank(id).query.Load(); q != nil {
		q.endStream(stream)
	}
	s.display.end(id, stream)
	s.endings.stream(wire.StreamEnd{Rank: id, Stream: stream})
	s.rank(id).streams.Add(-1)
	s.open.add(-1)
	(*job)(s).reapSoon(id)
}

func (s *sink) Exited(id int, status process.Status, at time.Time) {
	r := s.rank(id)
	e := spec.Exit{
		Rank: id, PID: int(r.pid.Load()), Code: status.Code, Signal: status.Signal, Core: status.Core,
		At: at, SignalledAt: s.signals.endRequestedAt(),
	}
	if scope := r.expired.Load(); scope != nil {
		e.Timer = *scope
		if e.Code == 0 && e.Signal == 0 { // it took the signal well, and yet it did not do in time what it set out to
			e.Code = 1
		}
	}
	if e.Code != 0 || e.Signal != 0 {
		(*job)(s).explain(&e, r.row)
	}
	r.end.Store(&e)
	s.mpi.afterSession(id, func() {
		exit := e
		exit.MPI = s.mpi.state(id)
		if e.Signal == 0 && e.SignalledAt.IsZero() && !explainsSingleton(e.LastLines) { // it ended by itself
			s.mpi.warnSingleton(id)
		}
		if exit.Signal == syscall.SIGSEGV && exit.SignalledAt.IsZero() && exit.Hint == "" {
			exit.Hint = s.mpi.spawnHint(exit.MPI, s.start.Common, r.row.Env)
		}
		s.endings.rank(exit)
		s.mpi.rankEnded(id)
		r.reported.Store(true)
		(*job)(s).reapSoon(id)
	})
}

func (s *sink) SocketReadable(id, fd int) { s.mpi.socketReadable(id, fd) }

// firstError is how the rank ended that was the first to raise the exception in its error file.
func (a *Agent) firstError() (first *spec.Exit) {
	if a.job == nil {
		return nil
	}
	for _, row := range a.job.rows() {
		e := a.job.rank(row.Rank).end.Load()
		if e != nil && len(e.ErrorFile) > 0 && (first == nil || e.RaisedAt.Before(first.RaisedAt)) {
			first = e
		}
	}
	return first
}

// explain adds to a failed rank's end what only its node can know.
func (j *job) explain(e *spec.Exit, row wire.Row) {
	e.ErrorFile, e.RaisedAt = j.readErrorFile(row)
	if j.logs != nil && !row.Spawned {
		e.LastLines = j.logs.Last(row.LocalRank, lastLines)
	}
	if len(e.LastLines) == 0 {
		e.LastLines = j.display.last(row.Rank)
	}
	if e.Signal == syscall.SIGKILL && e.Timer == "" && !j.signals.killed.Load() {
		j.explainOOM(e, len(j.rows()))
	}
}

// lastLines is how many lines of a log file the head is told, for the report.
const lastLines = 60

// endingDelay is how long the end of a stream, or of a rank that ended well, may
// wait for company: they tend to come together, and each frame wakes the head.
const endingDelay = 20 * time.Millisecond

// endings collects the ends of streams and ranks. A failure is sent at once, with
// what came before it; so is the end of the last rank.
type endings struct {
	job *job

	mu      sync.Mutex
	pending wire.Ended
	exited  int
	timer   *time.Timer
	held    bool // nothing may be told yet
}

// hold keeps back all ends from now on, release tells them.
func (x *endings) hold() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = true
}

func (x *endings) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = false
	x.send()
}

func (x *endings) stream(e wire.StreamEnd) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending.Streams = append(x.pending.Streams, e)
	x.delay()
}

func (x *endings) rank(e spec.Exit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending.Ranks = append(x.pending.Ranks, e)
	x.exited++
	if e.Code != 0 || e.Signal != 0 || x.exited >= len(x.job.rows()) {
		x.send()
	} else {
		x.delay()
	}
}

// forget has ranks not count any more that have ended and are none of the node's now.
func (x *endings) forget(ranks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.exited -= ranks
}

// delay sends what is pending before long.
func (x *endings) delay() {
	if x.timer == nil {
		x.timer = time.AfterFunc(endingDelay, x.flush)
	}
}

func (x *endings) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.send()
}

func (x *endings) send() {
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if len(x.pending.Streams)+len(x.pending.Ranks) > 0 && !x.held {
		_ = x.job.agent.link.Send(&x.pending)
		x.pending = wire.Ended{}
	}
}
