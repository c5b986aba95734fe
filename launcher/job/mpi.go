package job

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"

	"gorun/launcher/internal/spec"
)

// abortCode returns the exit code for an abort: its low 8 bits, and never 0.
func abortCode(a *spec.MPIAbort) int { return cmp.Or(a.Code&0xff, exitAborted) }

// mpiAborted counts as the rank's failure, however its process ends.
func (s *Supervisor) mpiAborted(ev MPIAborted) []Order {
	r := s.rank(ev.Rank)
	if r == nil || r.abort != nil {
		return nil
	}
	r.abort = &ev
	if s.cfg.Policy.Continue {
		return s.tolerate(r)
	}
	return s.stop(CauseRank, syscall.SIGTERM, ev.At)
}

func (s *Supervisor) mpiStuck(ev MPIStuck) []Order {
	if s.stuck != nil || s.phase != phaseRunning {
		return nil
	}
	s.stuck = &ev
	if s.cfg.Policy.Continue {
		return []Order{Note{s.stuckText() + "; they wait forever (--on-failure continue)"}}
	}
	return s.stop(CauseStuck, syscall.SIGTERM, ev.At)
}

// stuckText describes which ranks wait for which.
func (s *Supervisor) stuckText() string {
	w := s.stuck
	if w.Why != "" {
		return w.Why
	}
	waiting := fmt.Sprintf("rank %d waits", w.Waiting[0])
	if len(w.Waiting) > 1 {
		waiting = fmt.Sprintf("ranks %s wait", shortRanges(w.Waiting))
	}
	ended, initialized := "has ended", w.Initialized
	if r := s.rank(w.Missing); r != nil && r.exit != nil {
		initialized = initialized || r.exit.MPI != nil // another node may have reported the wait
		ended += fmt.Sprintf(" (%s)", how(s.rankEnd(r), s.cfg.SignalName))
	}
	if initialized {
		return fmt.Sprintf("%s in MPI for rank %d, which %s", waiting, w.Missing, ended)
	}
	return fmt.Sprintf("%s in MPI_Init for rank %d, which %s without calling it", waiting, w.Missing, ended)
}

// unfinalized reports whether a rank exited with code 0 between MPI_Init and MPI_Finalize.
func (r *rankState) unfinalized() bool {
	e := r.exit
	return e != nil && r.abort == nil && e.Code == 0 && e.Signal == 0 && e.MPI != nil && !e.MPI.Finalized
}

// mpiHow describes how a rank broke MPI's rules; "" if it did not.
func (e RankEnd) mpiHow() string {
	switch {
	case e.Abort != nil && e.Abort.Why != "":
		return e.Abort.Why
	case e.Abort != nil && e.Abort.Code&0xff == e.Abort.Code && e.Abort.Code != 0:
		return fmt.Sprintf("aborted MPI with code %d", e.Abort.Code)
	case e.Abort != nil:
		return fmt.Sprintf("aborted MPI with code %d (exit code %d)", e.Abort.Code, abortCode(e.Abort))
	case e.Unfinalized:
		return "exit code 0 after MPI_Init, without MPI_Finalize"
	}
	return ""
}

// ranTwice reports whether a rank seems to have run a second MPI program, whose library writes to a connection that
// the first has shut down.
func (e RankEnd) ranTwice() bool {
	const exitPipe = 128 + int(syscall.SIGPIPE)
	return e.MPI != nil && e.MPI.Finalized && strings.HasPrefix(e.MPI.Protocol, "PMI-") &&
		(e.Signal == syscall.SIGPIPE || e.Code == exitPipe)
}

// mpiHint says what to try where a rank broke MPI's rules.
func (r *Result) mpiHint() string {
	switch {
	case r.Cause == CauseStuck && r.Stuck != nil && r.Stuck.Why == "":
		return "call MPI_Init in each program of the job, as it waits for every rank, or add `--world=app` to make each " +
			"program a world of its own"
	case r.First != nil && r.First.ranTwice():
		return "run one program of MPICH's family per rank, whose connection to gorun ends with MPI_Finalize, or add " +
			"`--pmi-port` to give each a connection of its own"
	case r.First != nil && r.First.Unfinalized && len(r.Ranks) == 1:
		return "call MPI_Finalize before the program ends, even if there is nothing more to do"
	case r.First != nil && r.First.Unfinalized:
		return "call MPI_Finalize before the rank ends, even if there is nothing more to do: others may wait for it"
	}
	return ""
}
