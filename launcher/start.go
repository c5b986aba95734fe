package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// head is what drives the decided job.
func (s *session) head() *head {
	h := &head{
		settings: &s.settings, spec: &s.spec, nodes: s.active, stdio: s.stdio(len(s.plan.Ranks)),
		start: s.startMessages(), planSpawn: s.planSpawn, engine: s.engine, monitor: s.monitor, signals: s.signals,
		begun: make(chan struct{}), over: make(chan struct{}), credits: make([]outputCredit, len(s.active)),
		inspected: make(chan answer[wire.Hung], len(s.active)),
	}
	h.plan.Store(s.plan)
	h.exchange = newExchangeHub(s.plan.Attempt, s.active, h.hasProc)
	for i, n := range s.active {
		h.credits[i].link, h.credits[i].window = n.link, s.window()
		h.credits[i].addRanks(len(s.plan.Nodes[i].Ranks))
	}
	return h
}

// startMessages tell each node what concerns it. What all are told of all ranks is encoded once.
func (s *session) startMessages() func(n *node) *wire.Start {
	worlds := wire.EncodeWorlds(s.plan.Worlds)
	return func(n *node) *wire.Start {
		m := s.startMessage(n)
		if m.MPI.Offered {
			m.MPI.EncodedWorlds = worlds
		}
		return m
	}
}

// startMessage tells a node everything that was decided about it, but for who the ranks of others are.
func (s *session) startMessage(n *node) *wire.Start {
	p := s.plan
	m := &wire.Start{
		JobID: p.MarkerOf(n.number), Common: entries(p.CommonOf(n.number)), ErrorFiles: p.ErrorFiles(),
		Window: s.window(),
		Stdio:  s.stdio(len(p.Ranks)), TorchHint: s.torchHint(), Attempt: p.Attempt, HangTimeout: s.spec.HangTimeout,
		HangStop:    s.spec.OnHang == job.HangStop,
		StoreReport: s.spec.Store.ReportAfter(), Cgroup: s.wantsCgroup(), Ranks: s.rankRows(n),
	}
	if len(s.active) > 1 {
		m.Key = s.key
		m.HangTimeout = 0 // the head sees all of them
	}
	m.MPI = s.mpiConfig(n)
	m.Apps = p.AppsOf(n.number)
	if p.Logs != nil && (len(s.active) < 2 || !s.spec.Output.LogsToHead) {
		m.Logs = &wire.Logs{
			Logs: *p.LogsOf(n.number), Role: p.RoleOf(n.number), Template: s.spec.Output.Template,
			Show: s.spec.Output.ShowLocalRanks, Digits: len(strconv.Itoa(len(p.Ranks) - 1)),
			Host: p.Nodes[n.number].Name, Node: n.number,
		}
	}
	return m
}

// rows are a node's ranks.
func (s *session) rankRows(n *node) []wire.Row {
	ranks := s.plan.Nodes[n.number].Ranks
	rows := make([]wire.Row, len(ranks))
	for i, rank := range ranks {
		r := &s.plan.Ranks[rank]
		rows[i] = wire.Row{Process: r.Process, Env: entries(r.Env)}
	}
	return rows
}

// window is how much of each output stream may be under way from one node, in bytes:
// with many nodes less, for all of it may lie here while nobody reads.
func (s *session) window() int { return min(maxWindow, max(allWindow/len(s.active), minWindow)) }

// wantsCgroup: Slurm knows the processes of a step by its own cgroups and does not
// look below them.
func (s *session) wantsCgroup() bool {
	_, slurm := lookup(s.spec.Environ, "SLURM_JOB_ID")
	return !slurm && !s.spec.NoCgroup
}

// torchHint: in auto mode nobody can know whether an imported module hosts a
// store of its own.
func (s *session) torchHint() bool { return s.plan.Store.Mode == "gorun" }

// assignments are variables as processes get them; those that only an agent knows it adds
// itself.
func entries(vars []plan.Variable) []string {
	list := make([]string, 0, len(vars))
	for _, v := range vars {
		if v.Value != job.AtStart {
			list = append(list, v.Entry())
		}
	}
	return list
}

// outputFailed hears from the console that our own output cannot be written.
func (h *head) outputFailed(stream int, err error) {
	h.reportOutputLost(h.settings.notify, wire.OutputLost{
		Stream: stream, ReaderGone: errors.Is(err, syscall.EPIPE),
		Text: err.Error(),
	})
}

// outputLost hears that a node cannot show what its ranks print.
func (h *head) onOutputLost(n *node, m wire.OutputLost) error {
	if m.Stream != 1 && m.Stream != 2 {
		return wire.Violation("it lost output of stream %d; ranks have 1 and 2", m.Stream)
	}
	m.Text = printable.Text(m.Text)
	h.reportOutputLost(n.notify, m)
	return nil
}

func (h *head) reportOutputLost(tell func(string), m wire.OutputLost) {
	name := "standard output"
	if m.Stream == 2 {
		name = "standard error"
	}
	if !m.ReaderGone {
		tell(fmt.Sprintf("%s cannot be written, what ranks print is lost: %s", name, m.Text))
	}
	h.post(job.OutputLost{Stream: m.Stream, ReaderGone: m.ReaderGone, Text: name + ": " + m.Text, At: time.Now()})
}

// result is the supervisor's, with what passed through here: the last lines of
// the rank that failed first, what they mean, and where its log is.
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

// errorFile is that of a rank, as it is passed on.
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

// othersLast are the last lines of all ranks but one.
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

// lastLines are a rank's, of its standard error if there are any, else those that
// it wrote into a file.
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

// trace finds the exception that ended a rank: in PyTorch's error file or among
// its last lines, which are then not repeated.
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
