package launcher

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strconv"
	"syscall"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/job"
)

// result adds to the supervisor's result what this head has seen: the last lines of the rank that
// failed first, their meaning, and its log.
func (h *head) result() job.Result {
	r := h.sup.Result()
	p := h.plan.Load()
	r.JobID, r.Stall, r.Hang, r.NCCL = p.JobID, h.stall.Load(), h.hang.Load(), h.nccl.result()
	if p.Logs != nil {
		r.LogDir = p.Logs.Base
	}
	if r.First != nil {
		h.explainFailure(&r)
	}
	r.SetSignalNames(diagnosis.SignalName)
	if h.engineSignalsRanks() && r.Cause == job.CauseSignal && r.Signal == syscall.SIGTERM {
		r.Text = signalledInStep
	}
	if h.engine != nil {
		h.engine.attribute(&r)
	}
	r.SetHosts(p)
	return r
}

// forwardedErrorFile adds the exit status to a rank's error file.
func forwardedErrorFile(text []byte, code int, signal syscall.Signal) []byte {
	if signal != 0 {
		code = -int(signal)
	}
	return diagnosis.WithExitCode(text, code)
}

func (h *head) explainFailure(r *job.Result) {
	f := r.First
	exit, _ := h.sup.Exit(f.Rank)
	r.ErrorFile = forwardedErrorFile(exit.ErrorFile, exit.Code, exit.Signal)
	f.LastLines = h.lastLines(f.Rank, exit.LastLines)
	last := f.LastLines
	f.Traceback, f.LastLines = splitTraceback(f.LastLines, exit.ErrorFile)
	if f.Hint = cmp.Or(exit.Hint, f.Hint); f.Hint == "" {
		f.Hint = diagnosis.Hint(slices.Concat(f.Traceback, last), f.Code, int(f.Signal), h.otherTails(f.Rank))
	}
	p := h.plan.Load()
	switch rank := &p.Ranks[f.Rank]; {
	case p.Logs == nil || !p.Logs.Files() || rank.Spawned:
	case p.Logs.Named():
		f.Log = p.Logs.Base
	default:
		f.Log = path.Join(p.LogsOf(rank.Node).Dir, strconv.Itoa(rank.LocalRank))
	}
}

// otherTails yields the last lines of all ranks but one.
func (h *head) otherTails(but int) iter.Seq2[int, []string] {
	return func(yield func(int, []string) bool) {
		for rank := range h.plan.Load().Ranks {
			if rank == but {
				continue
			}
			exit, _ := h.sup.Exit(rank)
			if last := h.lastLines(rank, exit.LastLines); last != nil && !yield(rank, last) {
				return
			}
		}
	}
}

// lastLines returns a rank's last lines: of its standard error if there are any, else of its log
// file or standard output.
func (h *head) lastLines(rank int, logged []string) []string {
	if h.logs != nil {
		logged = h.logs.last(rank)
	}
	for _, last := range [][]string{h.console.Tail(rank, 2), logged, h.console.Tail(rank, 1)} {
		if last = diagnosis.WithoutAbortHelp(last); len(last) > 0 {
			return last
		}
	}
	return nil
}

// splitTraceback finds the exception that ended a rank, in PyTorch's error file or in its last
// lines, and returns the lines without it.
func splitTraceback(last []string, errorFile []byte) (traceback, rest []string) {
	if lines, ok := diagnosis.PythonTraceback(last); ok {
		return lines, nil
	}
	if lines, ok := diagnosis.GoPanic(last); ok {
		return lines, nil
	}
	if message, stack, _, ok := diagnosis.ErrorFile(errorFile); ok {
		if lines, ok := diagnosis.PythonTraceback(stack); ok {
			return lines, nil
		}
		return []string{message}, last
	}
	return nil, last
}
