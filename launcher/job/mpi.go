package job

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

// MPIAborted: a rank has ended MPI for all (MPI_Abort, or an error that its library does not survive).
type MPIAborted struct {
	Rank int
	spec.MPIAbort
	At time.Time
}

// MPIStuck: ranks wait in MPI for one that can never come, since it has ended.
type MPIStuck struct {
	spec.MPIStuck
	At time.Time
}

func (MPIAborted) event() {}
func (MPIStuck) event()   {}

// abortCode is the code as far as a process has room for it. An abort is never a success.
func abortCode(a *spec.MPIAbort) int {
	if code := a.Code & 0xff; code != 0 {
		return code
	}
	return exitAborted
}

// mpiAborted: it is the rank's failure, however its process ends then.
func (s *Supervisor) mpiAborted(ev MPIAborted) []Order {
	if _, known := s.node[ev.Rank]; !known || s.aborts[ev.Rank] != nil {
		return nil
	}
	if e := s.exits[ev.Rank]; e != nil { // the news was overtaken
		e.aborted = &ev
	}
	s.aborts[ev.Rank] = &ev
	switch {
	case !s.cfg.Policy.Continue:
		return s.stop(CauseRank, syscall.SIGTERM, ev.At)
	case s.phase == phaseRunning && !s.tolerated && s.ranksLeft():
		s.tolerated = true
		return []Order{s.toleratedNote(&Exited{Exit: spec.Exit{Rank: ev.Rank}, aborted: &ev})}
	}
	return nil
}

// mpiStuck: nothing can set these ranks free.
func (s *Supervisor) mpiStuck(ev MPIStuck) []Order {
	if s.stuck != nil || s.phase != phaseRunning {
		return nil
	}
	s.stuck = &ev
	if s.cfg.Policy.Continue {
		return []Order{Note{s.stuckText() + "; they wait for ever (--on-failure continue)"}}
	}
	return s.stop(CauseStuck, syscall.SIGTERM, ev.At)
}

// stuckText says who waits for whom.
func (s *Supervisor) stuckText() string {
	w := s.stuck
	if w.Why != "" {
		return w.Why
	}
	who := fmt.Sprintf("rank %d waits", w.Waiting[0])
	if len(w.Waiting) > 1 {
		who = fmt.Sprintf("ranks %s wait", foldShort(w.Waiting))
	}
	ended, begun := "has ended", w.Initialized
	if e := s.exits[w.Missing]; e != nil {
		begun = begun || e.MPI != nil // the node that waits may be another than its own
		ended += fmt.Sprintf(" (%s)", how(s.rankEnd(w.Missing), s.cfg.SignalName))
	}
	if begun {
		return fmt.Sprintf("%s in MPI for rank %d, which %s", who, w.Missing, ended)
	}
	return fmt.Sprintf("%s in MPI_Init for rank %d, which %s without calling it", who, w.Missing, ended)
}

// unfinalized reports whether a rank ended as if all was well between MPI_Init and MPI_Finalize.
func (e *Exited) unfinalized() bool {
	return e.Code == 0 && e.Signal == 0 && e.aborted == nil && e.MPI != nil && !e.MPI.Finalized
}

// mpiHow says of a rank that failed by MPI's rules how it did; "" for others.
func (e RankEnd) mpiHow() string {
	switch {
	case e.Abort != nil && e.Abort.Why != "":
		return e.Abort.Why
	case e.Abort != nil && e.Abort.Code&0xff == e.Abort.Code && e.Abort.Code != 0:
		return fmt.Sprintf("aborted MPI with code %d", e.Abort.Code)
	case e.Abort != nil:
		return fmt.Sprintf("aborted MPI with code %d, which as an exit code is %d", e.Abort.Code, abortCode(e.Abort))
	case e.Unfinalized:
		return "exit code 0 after MPI_Init, without MPI_Finalize"
	}
	return ""
}

// beganAgain reports whether a rank ended as if it had run a second MPI program: its library
// writes to a connection that the first has shut down.
func (e RankEnd) beganAgain() bool {
	const exitPipe = 128 + int(syscall.SIGPIPE)
	return e.MPI != nil && e.MPI.Finalized && strings.HasPrefix(e.MPI.Protocol, "PMI-") &&
		(e.Signal == syscall.SIGPIPE || e.Code == exitPipe)
}

// mpiHint is something to try where a rank failed by MPI's rules.
func (r *Result) mpiHint() string {
	switch {
	case r.Cause == CauseStuck && r.Stuck != nil && r.Stuck.Why == "":
		return "MPI_Init waits for every rank: each program of the job has to call it, or --world=app makes each a world " +
			"of its own"
	case r.First != nil && r.First.beganAgain():
		return "a rank can run one program of MPICH's family, whose connection to its launcher ends with MPI_Finalize; " +
			"with --pmi-port each has its own, else a second one needs a gorun of its own"
	case r.First != nil && r.First.Unfinalized && len(r.Ranks) == 1:
		return "it has to call MPI_Finalize before it ends, also where it has nothing more to do"
	case r.First != nil && r.First.Unfinalized:
		return "the others may wait for it in MPI: it has to call MPI_Finalize before it ends, also where it has nothing " +
			"more to do"
	}
	return ""
}
