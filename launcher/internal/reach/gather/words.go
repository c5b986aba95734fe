package gather

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
)

// Kind is what a word of an engine means for the job.
type Kind uint8

// The kinds.
const (
	Talk      Kind = iota // nothing
	NoProgram             // gorun is not there
	NoNode                // a node is down, or not to be had
	NoStep                // the engine does not start the agents
	NoNodes               // nor can it on these nodes: one is down, or not the job's
	NoOverlap             // the command is one of before it had this option
	NoJob                 // the job is over
	AgentEnds             // an agent has ended by itself
	Cancelled             // somebody ended the job
	TimeLimit             // the job's time is over
	Preempted             // another job wants the nodes
	Requeued              // the job begins anew, later
	NodeFails             // the engine has lost a node
	StepLost              // what the engine has on a node is gone, and the agent with it
	Noise                 // nothing that another line has not said
	Needless              // nothing that anybody needs to know
)

// hopeless reports whether not all agents will come.
func (k Kind) hopeless() bool { return k >= NoProgram && k <= NodeFails }

// Ends reports whether the engine ends the job.
func (k Kind) Ends() bool { return k >= Cancelled && k <= NodeFails }

// Word is a line that the engine's command, or what it started, has said.
type Word struct {
	Kind Kind
	// Node is the node that it is about, as the engine calls it; "": none that is known.
	Node string
	// Text is printable.
	Text string

	core string // of Text: what may be the same of several nodes
}

// overlap is an option of srun's that came with Slurm 20.11. Before, steps shared CPUs
// without it.
const overlap = "--overlap"

// maxLine bounds a line in bytes; what is longer counts as several.
const maxLine = 4 << 10

// meanings are what lines mean: pieces of them, in their order, between stars. The first that fits counts.
// They are Slurm's unless said otherwise: src/srun, src/slurmd/slurmstepd and
// src/common/slurm_errno.c of Slurm 20.11 to 24.11.
var meanings = []struct {
	line string
	kind Kind
}{
	{"CANCELLED AT*DUE TO TIME LIMIT", TimeLimit},
	{"CANCELLED AT*DUE TO PREEMPTION", Preempted},
	{"CANCELLED AT*DUE TO JOB REQUEUE", Requeued},
	{"CANCELLED AT*DUE TO NODE FAILURE", NodeFails},
	{"CANCELLED AT", Cancelled},
	{"FAILED*DUE TO NODE FAILURE", NodeFails},
	{"Node failure on ", NodeFails},
	{"error with slurmstepd on node", StepLost},
	{"execve():*No such file or directory", NoProgram},
	{"execve():*Permission denied", NoProgram},
	{"execve():*Exec format error", NoProgram},
	{"command not found", NoProgram},
	{"Required node not available", NoNode},
	{"Requested nodes are busy", NoStep},
	{"Requested node configuration is not available", NoNodes},
	{"Invalid job id", NoJob},
	{"Slurm job*has expired", NoJob},
	{"Expired or invalid job", NoJob},
	{"already completing or completed", NoJob},
	{"Unable to create step", NoStep},
	{"unrecognized option*" + overlap, NoOverlap},
	{"Task launch for*failed on node", NoNode},
	{"task*Exited with exit code", AgentEnds},
	{"task*Killed", AgentEnds},
	{"task*Terminated", AgentEnds},
	{"task*Aborted", AgentEnds},
	// Flux 0.60's flux exec.
	{"Error: rank *No such file or directory", NoProgram},
	{"Error: rank *Permission denied", NoProgram},
	{"Error: rank *No route to host", NoNode},
	// OpenPBS 20's pbsdsh, whose own exit code is 0 all the same.
	{"spawn failed on node ", NoNode},
	{"error * on spawn", NoNode},
	{"task 0x*exit status ", AgentEnds},
	// srun says so of what gorun asks for, where the cluster could not have done otherwise.
	{"cluster configuration lacks support for cpu binding", Needless},
	// Another line has said so.
	{"Job step aborted", Noise},
	{"Terminating StepId", Noise},
	{"Terminating task", Noise},
	{"got SIGCONT", Noise},
	{"forcing job termination", Noise},
	{"launch/slurm:", Noise},
	{"Waiting up to", Noise},
}

// understand reads one line.
func understand(line string) Word {
	text := strings.TrimSpace(printable.Text(printable.Short(strings.TrimRight(line, "\r\n"))))
	w := Word{Text: text}
	rest := text
	if label, after, ok := strings.Cut(rest, ": "); ok && isNumber(label) { // srun --label
		rest = after
	}
	if after, ok := strings.CutPrefix(rest, "slurmstepd-"); ok { // several daemons on one host
		w.Node, rest, _ = strings.Cut(after, ": ")
	}
	for _, prefix := range []string{"slurmstepd: ", "srun: ", "error: "} {
		rest = strings.TrimPrefix(rest, prefix)
	}
	w.core = rest
	for _, m := range meanings {
		if inOrder(rest, strings.Split(m.line, "*")) {
			w.Kind = m.kind
			break
		}
	}
	if name, _, ok := strings.Cut(rest, ": task"); ok && !strings.Contains(name, " ") {
		w.Node = name
	}
	for _, before := range []string{"Node failure on ", "failed on node "} {
		if _, after, ok := strings.Cut(rest, before); ok {
			w.Node, _, _ = strings.Cut(after, ":")
		}
	}
	return w
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func inOrder(text string, pieces []string) bool {
	for _, p := range pieces {
		_, after, ok := strings.Cut(text, p)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// keptLines is how many lines are kept.
const keptLines = 64

// said are the last lines.
type said struct {
	mu    sync.Mutex
	words []Word
}

func (s *said) add(w Word) {
	if w.Kind == Noise {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.words) >= keptLines { // the first are about the start, which the last may follow from
		s.words = slices.Delete(s.words, keptLines/2, keptLines/2+1)
	}
	s.words = append(s.words, w)
}

func (s *said) all() []Word {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.words)
}

// telling is the last of the lines that say most, "" if there is none.
func (s *said) telling() (text string) {
	least := (&Word{Kind: AgentEnds}).rank()
	for _, w := range s.all() {
		if r := w.rank(); r <= least {
			text, least = w.Text, r
		}
	}
	return text
}

// of is what was last said of a node.
func (s *said) of(node string) string {
	for _, w := range slices.Backward(s.all()) {
		if w.Node == node {
			return w.Text
		}
	}
	return ""
}

// Ending is what an engine has said of its ending the job.
type Ending struct {
	// Kind is why, Talk if it has said nothing.
	Kind Kind
	// Nodes are those that it is about: with NodeFails.
	Nodes []string
}

func (e *Ending) add(w Word) {
	if !w.Kind.Ends() {
		return
	}
	if e.Kind == Talk || e.Kind == Cancelled {
		e.Kind = w.Kind
	}
	if strings.Contains(w.Text, "Node failure on ") && !slices.Contains(e.Nodes, w.Node) {
		e.Nodes = append(e.Nodes, w.Node)
	}
}

// endings say why in words for the user.
var endings = map[Kind]string{
	TimeLimit: "time limit", Preempted: "preempted", Requeued: "requeued", NodeFails: "node failure",
	Cancelled: "cancelled (scancel)",
}

// String says why in words for the user, "" where it is not known.
func (e Ending) String() string {
	if len(e.Nodes) > 0 && e.Kind == NodeFails {
		return endings[NodeFails] + ": " + strings.Join(e.Nodes, ", ")
	}
	return endings[e.Kind]
}

// explainedLines is how many lines of a command an error has.
const explainedLines = 3

// explain says why the command has ended, or why its agents will not come.
func (c *command) explain(cfg *Config) *Error {
	words := c.said.all()
	slices.SortStableFunc(words, func(a, b Word) int { return a.rank() - b.rank() }) // what says most comes first
	e := &Error{Text: c.how()}
	for i, text := range folded(words) {
		if i == explainedLines {
			break
		}
		e.Text += [...]string{": ", "; "}[min(i, 1)] + text
	}
	for _, w := range words {
		if e.Hint == "" {
			e.Hint = hint(w, cfg, c.name)
		}
		e.again = e.again || w.Kind == NoProgram
		e.older = e.older || w.Kind == NoOverlap
	}
	return e
}

// folded says once what was said of several nodes.
func folded(words []Word) (texts []string) {
	nodes, done := map[string][]string{}, map[string]bool{}
	for _, w := range words {
		if w.Node != "" && !slices.Contains(nodes[w.core], w.Node) {
			nodes[w.core] = append(nodes[w.core], w.Node)
		}
	}
	for _, w := range words {
		text := w.Text
		if of := nodes[w.core]; len(of) > 1 {
			text = hosts.Fold(of) + ": " + w.core
		}
		if !done[w.core] {
			texts = append(texts, text)
		}
		done[w.core] = true
	}
	return texts
}

// rank is how little a word says of why agents did not come.
func (w *Word) rank() int {
	switch {
	case w.Kind == AgentEnds || w.Kind == Cancelled:
		return 4
	case w.Kind != Talk:
		return 1
	case strings.Contains(w.Text, "error: ") || strings.Contains(w.Text, "gorun: "):
		return 2
	}
	return 3
}

// how is how the command has ended.
func (c *command) how() string {
	if !c.over() {
		return c.name + " did not start all agents"
	}
	return fmt.Sprintf("%s ended before all agents had come (%s)", c.name, c.state())
}

// state is how the command, which has ended, did so.
func (c *command) state() string {
	var exit *exec.ExitError
	if !errors.As(c.Err, &exit) {
		return "exit code 0"
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit code %d", exit.ExitCode())
}

// hint is something to try.
func hint(w Word, cfg *Config, command string) string {
	switch w.Kind {
	case NoProgram:
		return fmt.Sprintf("%s is not on %s as it is here: install it where all nodes see it", cfg.Agent[0],
			cmp.Or(w.Node, "a node"))
	case NoNode:
		if w.Node != "" {
			return fmt.Sprintf("gorun --exclude %s … does without that node", w.Node)
		}
		if cfg.Start.Engine != "slurm" {
			return "gorun --exclude HOST … does without a host"
		}
		return "sinfo -R says which node is down; gorun --exclude NODE … does without it"
	case NoStep:
		return fmt.Sprintf("another %s of this job may hold its CPUs or GPUs: squeue -s shows it", command)
	case NoNodes:
		return hintNodes(cfg)
	case NoJob:
		return "the allocation has ended: exit leaves its shell, salloc or sbatch gets another"
	}
	return ""
}
