package job

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

// Exit codes of the launcher that are not a rank's own.
const (
	ExitUsage      = 2   // a mistake on the command line
	ExitTimeout    = 124 // the deadline ran out
	ExitLauncher   = 125 // the launcher's own error
	ExitNotExec    = 126 // the program cannot be executed
	ExitNotFound   = 127 // the program was not found
	ExitEarly      = 1   // --early-exit fail
	exitReaderGone = 141 // as SIGPIPE would have ended us
	exitRaised     = 1   // as Python ends a program that raised
	exitAborted    = 1   // MPI_Abort with a code of which 8 bits are 0
	exitMPI        = 1   // MPI's rules were broken
)

// Cause is why a job ended.
type Cause uint8

const (
	CauseDone       Cause = iota // every rank ended with exit code 0
	CauseRank                    // a rank failed
	CauseStart                   // a rank could not be started
	CauseSignal                  // a signal to the launcher
	CauseTimeout                 // the deadline
	CauseReaderGone              // the reader of the launcher's standard output went away
	CauseCancelled               // the context of Run was cancelled
	CauseNode                    // a node's agent was lost
	CauseEarly                   // a rank ended well long before the others (--early-exit fail)
	CauseHang                    // the job made no progress (--hang-timeout)
	CauseEngine                  // its resource manager ended it
	CauseStuck                   // ranks waited in MPI for one that had ended
	CausePreempted               // --preempt-signal announced the end
	CauseJoined                  // nodes have joined: another attempt follows
)

var causeNames = [...]string{
	"done", "rank failed", "start failed", "signal", "timeout", "reader gone", "cancelled",
	"node lost", "early exit", "hang", "resource manager", "stuck in MPI", "preempted",
	"nodes joined",
}

// String returns the cause's name in reports.
func (c Cause) String() string { return causeNames[c] }

// MarshalText returns the cause's name.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Fate is how one rank ended.
type Fate uint8

const (
	FateSucceeded  Fate = iota // exit code 0
	FateFailed                 // by itself
	FateStopped                // by a signal, after the launcher had stopped it
	FateFollowed               // with an exit code, after the launcher had stopped it
	FateNotStarted             // it never ran
	FateUnknown                // its node was lost
)

var fateNames = [...]string{"succeeded", "failed", "stopped", "followed", "not started", "unknown"}

// String returns the fate's name in reports.
func (f Fate) String() string { return fateNames[f] }

// MarshalText returns the fate's name.
func (f Fate) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// RankEnd describes how one rank ended.
type RankEnd struct {
	Rank   int            `json:"rank"`             // number in the job
	Host   string         `json:"host,omitempty"`   // its node; absent with one node
	PID    int            `json:"pid,omitempty"`    // of the rank's first process; absent if it never started
	Fate   Fate           `json:"fate"`             // how it ended
	Code   int            `json:"exit_code"`        // 128+n after a signal n
	Signal syscall.Signal `json:"signal,omitempty"` // number of the signal that ended it; absent without one
	// SignalName is the name of the signal: "SIGKILL".
	SignalName string    `json:"signal_name,omitempty"`
	Core       bool      `json:"core_dumped,omitempty"`   // the kernel wrote a core dump
	At         time.Time `json:"ended_at,omitzero"`       // when it ended
	OOM        string    `json:"out_of_memory,omitempty"` // how it is known that the kernel killed it for that
	// Timer is the scope of the expired file timer of PyTorch for which gorun ended it.
	Timer string `json:"timer,omitempty"`
	// Forwarded reports that the launcher had passed on the signal.
	Forwarded bool `json:"forwarded,omitempty"`
	// FromEngine is the resource manager that had sent the signal to all ranks.
	FromEngine string `json:"from_scheduler,omitempty"`
	// Raised reports that it had written PyTorch's error file, and hung until the launcher ended it by the signal.
	Raised      bool           `json:"raised,omitempty"`
	MPI         *spec.RankMPI  `json:"mpi,omitempty"`             // how far it had come in MPI
	Abort       *spec.MPIAbort `json:"mpi_abort,omitempty"`       // its call of MPI_Abort, however its process ended
	Unfinalized bool           `json:"mpi_unfinalized,omitempty"` // whether it exited 0 without MPI_Finalize
	// Killed reports that it had not stopped gracefully, and the launcher's SIGKILL ended it.
	Killed bool `json:"killed,omitempty"`
}

// Failure describes the failure that ended a job.
type Failure struct {
	RankEnd
	// EndedFirst are ranks that had ended with exit code 0 before this one failed for a lost connection: it is the victim
	// of one that did not wait for the others.
	EndedFirst []int `json:"ended_first,omitempty"`
	// How describes how it ended, as in the report on a terminal.
	How string `json:"description,omitempty"`
	// After is the time from the start of the ranks until it failed.
	After Seconds `json:"after_seconds,omitempty"`
	// Traceback has the last lines of a Python traceback, of PyTorch's error file or of a Go panic.
	Traceback []string `json:"traceback,omitempty"`
	// LastLines are those of standard error, or of standard output if it wrote none.
	LastLines []string `json:"last_lines,omitempty"`
	// Shown reports that these lines stand above where the report goes; Label is what the report's quotes of them begin
	// with in pipes and files, unless there is one rank or labels are off.
	Shown bool   `json:"-"`
	Label string `json:"-"`
	// Log is the rank's log file or directory, where one was written.
	Log string `json:"log,omitempty"`
	// Hint is something to try.
	Hint string `json:"hint,omitempty"`
	// Known is the ID of the known error in the last lines, or of the exit code; see docs/reference/errors.md.
	Known string `json:"known_error,omitempty"`
}

// Result describes how a job ended.
type Result struct {
	JobID string `json:"job,omitempty"` // id
	Cause Cause  `json:"cause"`         // why the job ended
	// Class is whose fault the end was: "user", "node", "network", "launcher" or "scheduler"; absent after success.
	Class string `json:"class,omitempty"`
	// Why says in a few words why it has that class.
	Why      string         `json:"why,omitempty"`
	ExitCode int            `json:"exit_code"`        // of gorun
	Signal   syscall.Signal `json:"signal,omitempty"` // that a user or the resource manager sent
	// SignalName is the name of the signal: "SIGTERM".
	SignalName string `json:"signal_name,omitempty"`
	// Text explains a cause that is not a rank.
	Text string `json:"text,omitempty"`
	Hint string `json:"hint,omitempty"` // what to do about the failure
	// ErrorFile is the content of PyTorch's error file of the rank that failed first, with its exit code; on a node that
	// joined, of the first one there.
	ErrorFile []byte `json:"-"`
	// First is the rank that failed first, if one did by itself.
	First   *Failure  `json:"first_failure,omitempty"`
	Ranks   []RankEnd `json:"ranks"`           // how each rank ended
	Elapsed Seconds   `json:"elapsed_seconds"` // the time from the start of the ranks to the end of the last
	// After is the time to the cause: in the last attempt if a rank failed, else from the job's start.
	After Seconds `json:"after_seconds"`
	// OutputLost is why output could not be written.
	OutputLost string `json:"output_lost,omitempty"`
	// Requeued says that the job goes on later: "Slurm job 17 is back in the queue".
	Requeued string `json:"requeued,omitempty"`
	// GaveUp is why the job was not restarted although its restarts are not used up.
	GaveUp string `json:"gave_up,omitempty"`
	// Goodput is how well a job used its time that was restarted or has --progress-file.
	Goodput *Goodput `json:"goodput,omitempty"`
	// Attempts are the earlier ones of a job that was restarted.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Chaos describes the faults of --chaos; absent without.
	Chaos *Chaos `json:"chaos,omitempty"`
	// Stall describes a wait in the store without progress, if there was one.
	Stall *Stall `json:"store_stall,omitempty"`
	// Hang describes what ranks did when the job hung, if it did.
	Hang *Hang `json:"hang,omitempty"`
	// NCCL has messages of NCCL or RCCL in the output of ranks.
	NCCL *NCCL `json:"nccl,omitempty"`
	// Stuck describes the wait for a rank that had ended, if the cause is that.
	Stuck *spec.MPIStuck `json:"mpi_stuck,omitempty"`
	// Orphans are processes that survived SIGKILL.
	Orphans []string `json:"orphans,omitempty"`
	// LogDir is the directory of the job's log files, if there are any.
	LogDir string `json:"log_directory,omitempty"`
}

// Result returns how the job ended, once Done.
func (s *Supervisor) Result() Result {
	r := Result{
		Cause: s.cause, Signal: s.signal, Text: s.text, Hint: s.hint, Orphans: s.orphans,
		Elapsed: s.since(s.endedAt), After: s.since(s.endedAt),
	}
	if !s.stoppedAt.IsZero() {
		r.After = s.since(s.stoppedAt)
	}
	first := s.firstFailure()
	if first != nil {
		r.First = &Failure{
			RankEnd: s.rankEnd(first), EndedFirst: s.endedBefore(first), After: s.since(first.failedAt()),
		}
	}
	switch {
	case first != nil && (r.Cause == CauseStuck || r.Cause == CauseJoined || r.Cause == CauseDone && !s.enough()):
		r.Cause = CauseRank // which was reported after the wait, if there was one
	case r.Cause == CausePreempted && !slices.ContainsFunc(s.ranks, (*rankState).failed),
		r.Cause == CauseJoined && !slices.ContainsFunc(s.ranks, (*rankState).stopped):
		r.Cause, r.Text = CauseDone, ""
	case r.Cause == CauseStuck:
		r.Text, r.Stuck = s.stuckText(), &s.stuck.MPIStuck
	}
	if first != nil && r.Cause == CauseRank {
		r.After = r.First.After
	}
	for _, rank := range s.ranks {
		if rank != nil {
			r.Ranks = append(r.Ranks, s.rankEnd(rank))
		}
	}
	if s.lost != nil && !s.lost.ReaderGone {
		r.OutputLost = s.lost.Text
	}
	if r.First != nil {
		r.First.Hint = cmp.Or(r.mpiHint(), r.First.earlyHint())
	} else if r.Cause == CauseStuck {
		r.Hint = r.mpiHint()
	}
	r.ExitCode = s.exitCode(r.Cause, first)
	return r
}

// endedBefore returns the ranks that succeeded before a victim of a lost connection failed.
func (s *Supervisor) endedBefore(victim *rankState) (ranks []int) {
	if victim.abort != nil || !victim.exit.PeerLost {
		return nil
	}
	for _, r := range s.ranks {
		if r != nil && r.exit != nil && !r.failed() && r.exit.At.Before(victim.exit.At) {
			ranks = append(ranks, r.number)
		}
	}
	return ranks
}

// enough reports whether at least --min-success ranks succeeded.
func (s *Supervisor) enough() bool {
	succeeded := 0
	for _, r := range s.ranks {
		if r != nil && r.exit != nil && !r.failed() {
			succeeded++
		}
	}
	return s.cfg.Policy.MinSuccess > 0 && succeeded >= s.cfg.Policy.MinSuccess
}

// since returns the job's time at a moment.
func (s *Supervisor) since(at time.Time) Seconds { return Seconds(max(0, at.Sub(s.cfg.StartedAt))) }

func (s *Supervisor) rankEnd(r *rankState) RankEnd {
	e, end := r.exit, RankEnd{Rank: r.number, PID: r.pid}
	if r.abort != nil {
		end.Abort = &r.abort.MPIAbort
	}
	if e == nil {
		end.Fate = FateNotStarted
		if end.PID != 0 {
			end.Fate = FateUnknown
		}
		return end
	}
	end.PID = cmp.Or(e.PID, end.PID)
	end.Code, end.Signal, end.Core, end.At, end.OOM, end.Timer = e.exitCode(), e.Signal, e.Core, e.At, e.OOM, e.Timer
	end.Forwarded = slices.Contains(s.forwarded, e.Signal)
	end.Raised = s.hungAfterError(r)
	end.MPI, end.Unfinalized = e.MPI, r.unfinalized()
	if slices.Contains(s.engineSignals, e.Signal) {
		end.FromEngine = s.cfg.Engine
	}
	switch {
	case !r.failed():
		end.Fate = FateSucceeded
	case s.byItself(r), end.Unfinalized: // a rank that is stopped hardly exits with code 0
		end.Fate = FateFailed
	case e.Signal == 0:
		end.Fate = FateFollowed
	default:
		end.Fate = FateStopped
		end.Killed = r.killed && e.Signal == syscall.SIGKILL && e.OOM+e.Timer == ""
	}
	return end
}

// exitCode returns the exit code of the job, whose first failure is nil where no rank failed by itself.
func (s *Supervisor) exitCode(cause Cause, first *rankState) int {
	switch cause {
	case CauseRank:
		return s.failureCode(first)
	case CauseStart:
		return s.startCode
	case CausePreempted:
		if first != nil {
			return s.failureCode(first)
		}
		return 128 + int(s.signal)
	case CauseSignal, CauseEngine:
		return 128 + int(s.signal)
	case CauseTimeout:
		return cmp.Or(s.cfg.TimeoutCode, ExitTimeout)
	case CauseHang:
		return ExitTimeout
	case CauseReaderGone:
		return exitReaderGone
	case CauseCancelled:
		return 128 + int(syscall.SIGTERM)
	case CauseNode, CauseJoined:
		return ExitLauncher
	case CauseEarly:
		return ExitEarly
	case CauseStuck:
		return exitMPI
	}
	if s.lost != nil && !s.lost.ReaderGone {
		return ExitLauncher
	}
	return 0
}

func (s *Supervisor) failureCode(first *rankState) int {
	switch {
	case first.abort != nil:
		return abortCode(&first.abort.MPIAbort)
	case s.hungAfterError(first):
		return exitRaised
	case first.unfinalized():
		return exitMPI
	}
	return first.exit.exitCode()
}

// SetSignalNames sets the fields that depend on the signals' names.
func (r *Result) SetSignalNames(name SignalNamer) {
	if r.Signal != 0 {
		r.SignalName, _ = name(r.Signal)
	}
	for i := range r.Ranks {
		if e := &r.Ranks[i]; e.Signal != 0 {
			e.SignalName, _ = name(e.Signal)
		}
	}
	if f := r.First; f != nil {
		f.How = how(f.RankEnd, name)
		if f.Signal != 0 {
			f.SignalName, _ = name(f.Signal)
		}
	}
}

// SetHosts sets the ranks' hosts if the plan has several.
func (r *Result) SetHosts(p *Plan) {
	if len(p.Nodes) < 2 {
		return
	}
	host := func(rank int) string { return p.Nodes[p.Ranks[rank].Node].Name }
	for i := range r.Ranks {
		r.Ranks[i].Host = host(r.Ranks[i].Rank)
	}
	if r.First != nil {
		r.First.Host = host(r.First.Rank)
	}
}

func (e *Exited) exitCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}
