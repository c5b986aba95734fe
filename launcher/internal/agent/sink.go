package agent

import (
	"slices"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// sink is a job's process.Sink. Its methods run on the spawner threads.
type sink struct{ *job }

func (s sink) Started(id, pid int) {
	s.rank(id).pid.Store(int32(pid))
	s.guard.AddRank(pid)
}

// Output forwards output and writes it to the rank's tee file. It pauses the stream when its credit is used up.
func (s sink) Output(id, stream int, p []byte) {
	s.printed.Add(int64(len(p)))
	if s.logs != nil {
		if tee := s.tee(id, stream); tee != nil {
			s.credit.take(stream, len(p)) // returned when it is on disk
			_, _ = tee.Write(p)           // errors are reported once, by Failed
		}
	}
	r := s.rank(id)
	r.printed.Add(int64(len(p)))
	if q := r.query.Load(); q != nil {
		q.output(stream, p)
		return
	}
	s.mpi.observeOutput(id, stream, p)
	s.forward(id, stream, p)
}

// forward shows output here or sends it to the head.
func (j *job) forward(id, stream int, p []byte) {
	if j.display != nil && !j.display.hidden.Has(stream) {
		j.credit.take(stream, len(p))
		j.display.Write(id, stream, p)
	}
	if j.display != nil && !j.start.Stdio.Forward {
		return
	}
	j.credit.take(stream, len(p))
	_ = j.agent.link.Output(id, stream, p) // the head may be gone
}

func (s sink) Closed(id, stream int) {
	if s.logs != nil {
		if tee := s.tee(id, stream); tee != nil {
			_ = tee.Close()
		}
	}
	if q := s.rank(id).query.Load(); q != nil {
		q.endStream(stream)
	}
	s.display.end(id, stream)
	s.endings.streamEnded(wire.StreamEnd{Rank: id, Stream: stream})
	s.rank(id).streams.Add(-1)
	s.open.add(-1)
	s.reapSoon(id)
}

func (s sink) Exited(id int, status process.Status, at time.Time) {
	r := s.rank(id)
	e := spec.Exit{
		Rank: id, PID: int(r.pid.Load()), Code: status.Code, Signal: status.Signal, Core: status.Core,
		At: at, SignalledAt: s.signals.endRequestedAt(),
	}
	if scope := r.expired.Load(); scope != nil {
		e.Timer = *scope
		if e.Code == 0 && e.Signal == 0 { // it handled the signal, but its time was over
			e.Code = 1
		}
	}
	if e.Code != 0 || e.Signal != 0 {
		s.addNodeDetails(&e, r.row)
	}
	r.end.Store(&e)
	s.passOn(r)
	s.mpi.afterSession(id, func() {
		exit := e
		exit.MPI = s.mpi.state(id)
		if e.Signal == 0 && e.SignalledAt.IsZero() && !explainsSingleton(e.LastLines) {
			s.mpi.warnSingleton(id)
		}
		if exit.Signal == syscall.SIGSEGV && exit.SignalledAt.IsZero() && exit.Hint == "" {
			exit.Hint = s.mpi.spawnHint(exit.MPI, s.start.Common, r.row.Env)
		}
		s.endings.rankExited(exit)
		s.mpi.rankEnded(id)
		r.reported.Store(true)
		s.reapSoon(id)
	})
}

func (s sink) SocketReadable(id, fd int) { s.mpi.socketReadable(id, fd) }

// firstError returns the exit of the rank whose error file has the earliest exception; nil: none.
func (a *Agent) firstError() (first *spec.Exit) {
	if a.job == nil {
		return nil
	}
	now := a.job.roster.Load()
	for _, row := range now.rows {
		e := now.ranks[row.Rank].end.Load()
		if e != nil && len(e.ErrorFile) > 0 && (first == nil || e.RaisedAt.Before(first.RaisedAt)) {
			first = e
		}
	}
	return first
}

// addNodeDetails adds to a failed rank's exit what only its node knows.
func (j *job) addNodeDetails(e *spec.Exit, row wire.Row) {
	e.ErrorFile, e.RaisedAt = j.readErrorFile(row)
	e.OthersBehind = e.SignalledAt.IsZero() && j.othersBehind(e.PID, process.Describe)
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

// Limits of the search for ranks that are behind one that failed.
const (
	maxStart       = 10 * time.Second // CPU time
	maxBehindReads = 64
)

// othersBehind reports whether ranks of this node are behind one that has failed.
func (j *job) othersBehind(pid int, describe func(pid int) (process.Proc, error)) bool {
	failed, err := describe(pid) // not reaped yet
	reads := 0
	return err == nil && slices.ContainsFunc(j.rows(), func(row wire.Row) bool {
		r := j.rank(row.Rank)
		if r == nil || r.end.Load() != nil || reads == maxBehindReads {
			return false
		}
		reads++
		other, err := describe(int(r.pid.Load()))
		return err == nil && isBehind(other, failed)
	})
}

// isBehind reports whether a process has used less CPU time than one that failed as it started, and wants more: on a
// busy host it comes to the same point later.
func isBehind(p, failed process.Proc) bool {
	return (p.State == 'R' || p.State == 'D') && failed.CPU.Duration() < maxStart && 10*p.CPU < 9*failed.CPU
}

// lastLines is the number of lines of a log file sent for the report.
const lastLines = 60
