package gather

import (
	"slices"
	"strings"
	"sync"

	"gorun/internal/printable"
)

// kind is what a message of an engine means for the job.
type kind uint8

const (
	other           kind = iota
	programMissing       // gorun is not on the node
	nodeUnavailable      // a node is down
	stepRefused          // the engine does not start the agents
	nodesRefused         // some of these nodes are down, or not the job's
	overlapUnknown       // srun is too old for --overlap
	jobGone              // the engine's job has ended
	agentExited
	cancelled // a user ended the job
	timeLimit
	preempted
	requeued // the job will run again later
	nodeFailed
	stepDaemonLost // an agent lost its step daemon
	redundant      // another message has said the same
	ignored        // of no interest to anybody
)

// agentsMissing reports whether some agents will never connect.
func (k kind) agentsMissing() bool { return k >= programMissing && k <= nodeFailed }

// endsJob reports whether the engine ends the job.
func (k kind) endsJob() bool { return k >= cancelled && k <= nodeFailed }

// message is one line that the engine's command or an agent printed.
type message struct {
	kind kind
	node string // in the engine's spelling; "" if unknown
	text string // printable
	core string // text without the node
}

// overlap is an option that srun has since Slurm 20.11. Before, steps shared CPUs without it.
const overlap = "--overlap"

// maxLine is in bytes; a longer line counts as several.
const maxLine = 4 << 10

// patterns classify messages; the first match counts. A star matches any text. Unless noted they
// come from src/srun, src/slurmd/slurmstepd and src/common/slurm_errno.c of Slurm 20.11 to 24.11.
var patterns = []struct {
	pattern string
	kind    kind
}{
	{"CANCELLED AT*DUE TO TIME LIMIT", timeLimit},
	{"CANCELLED AT*DUE TO PREEMPTION", preempted},
	{"CANCELLED AT*DUE TO JOB REQUEUE", requeued},
	{"CANCELLED AT*DUE TO NODE FAILURE", nodeFailed},
	{"CANCELLED AT", cancelled},
	{"FAILED*DUE TO NODE FAILURE", nodeFailed},
	{"Node failure on ", nodeFailed},
	{"error with slurmstepd on node", stepDaemonLost},
	{"execve():*No such file or directory", programMissing},
	{"execve():*Permission denied", programMissing},
	{"execve():*Exec format error", programMissing},
	{"command not found", programMissing},
	{"Required node not available", nodeUnavailable},
	{"Requested nodes are busy", stepRefused},
	{"Requested node configuration is not available", nodesRefused},
	{"Invalid job id", jobGone},
	{"Slurm job*has expired", jobGone},
	{"Expired or invalid job", jobGone},
	{"already completing or completed", jobGone},
	{"Unable to create step", stepRefused},
	{"unrecognized option*" + overlap, overlapUnknown},
	{"Task launch for*failed on node", nodeUnavailable},
	{"task*Exited with exit code", agentExited},
	{"task*Killed", agentExited},
	{"task*Terminated", agentExited},
	{"task*Aborted", agentExited},
	// Flux 0.60's flux exec.
	{"Error: rank *No such file or directory", programMissing},
	{"Error: rank *Permission denied", programMissing},
	{"Error: rank *No route to host", nodeUnavailable},
	// OpenPBS 20's pbsdsh, whose own exit code is 0 all the same.
	{"spawn failed on node ", nodeUnavailable},
	{"error * on spawn", nodeUnavailable},
	{"task 0x*exit status ", agentExited},
	// About an option of gorun that has no effect on such a cluster.
	{"cluster configuration lacks support for cpu binding", ignored},
	{"Job step aborted", redundant},
	{"Terminating StepId", redundant},
	{"Terminating task", redundant},
	{"got SIGCONT", redundant},
	{"forcing job termination", redundant},
	{"launch/slurm:", redundant},
	{"Waiting up to", redundant},
}

// parse parses one line.
func parse(line string) message {
	text := strings.TrimSpace(printable.Text(printable.Short(strings.TrimRight(line, "\r\n"))))
	m := message{text: text}
	rest := text
	if label, after, ok := strings.Cut(rest, ": "); ok && isNumber(label) { // srun --label
		rest = after
	}
	if after, ok := strings.CutPrefix(rest, "slurmstepd-"); ok { // of several daemons on one host
		m.node, rest, _ = strings.Cut(after, ": ")
	}
	for _, prefix := range []string{"slurmstepd: ", "srun: ", "error: "} {
		rest = strings.TrimPrefix(rest, prefix)
	}
	m.core = rest
	for _, p := range patterns {
		if containsInOrder(rest, strings.Split(p.pattern, "*")) {
			m.kind = p.kind
			break
		}
	}
	if name, _, ok := strings.Cut(rest, ": task"); ok && !strings.Contains(name, " ") {
		m.node = name
	}
	for _, before := range []string{"Node failure on ", "failed on node "} {
		if _, after, ok := strings.Cut(rest, before); ok {
			m.node, _, _ = strings.Cut(after, ":")
		}
	}
	return m
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func containsInOrder(text string, pieces []string) bool {
	for _, p := range pieces {
		_, after, ok := strings.Cut(text, p)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// maxLog is the number of messages that a log keeps.
const maxLog = 64

// log keeps the first and the last messages: the first are about the start, and often the cause of
// the last.
type log struct {
	mu       sync.Mutex
	messages []message
}

func (l *log) add(m message) {
	if m.kind == redundant {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.messages) >= maxLog {
		l.messages = slices.Delete(l.messages, maxLog/2, maxLog/2+1)
	}
	l.messages = append(l.messages, m)
}

func (l *log) all() []message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.messages)
}

// mostTelling returns the last of the messages that explain most, "" if none explains anything.
func (l *log) mostTelling() (text string) {
	best := (&message{kind: agentExited}).rank()
	for _, m := range l.all() {
		if r := m.rank(); r <= best {
			text, best = m.text, r
		}
	}
	return text
}

// last returns the last message about a node.
func (l *log) last(node string) string {
	for _, m := range slices.Backward(l.all()) {
		if m.node == node {
			return m.text
		}
	}
	return ""
}

// ending collects what an engine reports about the end of the job.
type ending struct {
	kind  kind     // other if unknown
	nodes []string // with nodeFailed
}

func (e *ending) add(m message) {
	if !m.kind.endsJob() {
		return
	}
	if e.kind == other || e.kind == cancelled {
		e.kind = m.kind
	}
	if node := m.failedNode(); node != "" && !slices.Contains(e.nodes, node) {
		e.nodes = append(e.nodes, node)
	}
}

// failedNode returns the node whose failure a message reports, "" without one.
func (m *message) failedNode() string {
	if strings.Contains(m.text, "Node failure on ") {
		return m.node
	}
	return ""
}

var endings = map[kind]string{
	timeLimit: "time limit", preempted: "preempted", requeued: "requeued", nodeFailed: "node failure",
	cancelled: "cancelled (scancel)",
}

func (e ending) String() string {
	if len(e.nodes) > 0 && e.kind == nodeFailed {
		return endings[nodeFailed] + ": " + strings.Join(e.nodes, ", ")
	}
	return endings[e.kind]
}
