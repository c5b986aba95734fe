package launcher

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"syscall"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
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
	} else if r.Cause == job.CauseTimeout && p.HangTimeout == 0 && len(r.Ranks) > 1 {
		r.Hint = "add `--hang-timeout 1m` to see what each rank waits for when nothing happens"
	}
	r.SetSignalNames(diagnosis.SignalName)
	if h.engineSignalsRanks() && r.Cause == job.CauseSignal && r.Signal == syscall.SIGTERM {
		r.Text = signalledInStep
	}
	if h.engine != nil {
		h.engine.attribute(&r, r.Cause == job.CauseNode && h.spec.MinNodes > 0)
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
	last, stream := h.lastOutput(f.Rank, exit.LastLines)
	var fromFile bool
	f.Traceback, f.LastLines, fromFile = splitTraceback(last, exit.ErrorFile)
	f.Shown = stream > 0 && !fromFile && h.console.Shown(f.Rank, stream)
	f.Label = h.quoteLabel(f.Rank)
	hint, known := diagnosis.Hint(slices.Concat(f.Traceback, last), f.Code, int(f.Signal), h.otherTails(f.Rank))
	f.Hint, f.Known = cmp.Or(exit.Hint, f.Hint, hint), known
	p := h.plan.Load()
	switch rank := &p.Ranks[f.Rank]; {
	case p.Logs == nil || !p.Logs.Files() || rank.Spawned:
	case p.Logs.Named():
		plan := h.logPlan(rank.Node)
		f.Log = cmp.Or(plan.File("", rank.LocalRank, cmp.Or(stream, output.Stderr)),
			plan.File("", rank.LocalRank, output.Stdout), p.Logs.Base)
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
	lines, _ := h.lastOutput(rank, logged)
	return lines
}

// lastOutput returns lastLines and the stream that the console got them from, 0 for a log file.
func (h *head) lastOutput(rank int, logged []string) (lines []string, stream int) {
	if h.logs != nil {
		logged = h.logs.last(rank)
	}
	for _, from := range []int{2, 0, 1} {
		lines = logged
		if from != 0 {
			lines = h.console.Tail(rank, from)
		}
		if lines = diagnosis.WithoutAbortHelp(lines); len(lines) > 0 {
			return lines, from
		}
	}
	return nil, 0
}

// quoteLabel is what quoted lines of a rank begin with in a pipe or file, where lines of many jobs may meet.
func (h *head) quoteLabel(rank int) string {
	if isTerminal(h.settings.Stderr) || h.spec.Output.Label == job.LabelNever || len(h.plan.Load().Ranks) == 1 {
		return ""
	}
	return fmt.Sprintf("[%d] ", rank)
}

// splitTraceback finds the exception that ended a rank, in its last lines or in PyTorch's error file, and returns the
// lines without it.
func splitTraceback(last []string, errorFile []byte) (traceback, rest []string, fromFile bool) {
	if lines, ok := diagnosis.PythonTraceback(last); ok {
		return lines, nil, false
	}
	if lines, rest, ok := diagnosis.PythonCrash(last); ok {
		return lines, rest, false
	}
	if lines, ok := diagnosis.GoPanic(last); ok {
		return lines, nil, false
	}
	if message, stack, _, ok := diagnosis.ErrorFile(errorFile); ok {
		if lines, ok := diagnosis.PythonTraceback(stack); ok {
			return lines, nil, false
		}
		return []string{message}, last, len(last) > 0
	}
	return nil, last, false
}
