package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

const (
	// killDelay is the time between a late SIGTERM and SIGKILL: a job ends within its grace and 2 s.
	killDelay = time.Second
	// maxOrphanGrace bounds the time that orphans get after a successful job, however long the grace is.
	maxOrphanGrace = 10 * time.Second
	// failureDelay is how long ranks that fail together may take: four interpreters end up to 200 ms apart on a busy host.
	failureDelay = 200 * time.Millisecond
	// maxStartDelay bounds how long ranks may take that are behind one that failed as it started: as long as that took.
	maxStartDelay = 1500 * time.Millisecond
	// peerDelay is how long a rank may take to end after its connections have closed.
	peerDelay = time.Second
	// noteDelay is how long ranks may take to stop before a note says so.
	noteDelay = time.Second
)

// SupervisorConfig is the part of a plan that the supervisor needs.
type SupervisorConfig struct {
	Nodes     [][]int   // the ranks of each node
	StartedAt time.Time // the start of the job, from which Result counts
	Grace     time.Duration
	Timeout   time.Duration // 0: none
	// TimeoutCode is the exit code after Timeout; 0 means ExitTimeout.
	TimeoutCode int
	Policy      Policy
	OnHang      OnHang
	// Engine is the name of the resource manager that started the agents; "" if none did.
	Engine string
	// SignalName names signals in notes.
	SignalName SignalNamer
	// EndSignals stop the job gracefully, as SIGINT, SIGTERM and SIGHUP do. Every other signal is forwarded.
	EndSignals []syscall.Signal
	// Preempt is the signal that announces the job's end; 0: none.
	Preempt syscall.Signal
	// Checkpointed are exit codes of ranks that saved what they need, after which others may need the grace to do so.
	Checkpointed []int
}

// phase is a step of stopping a job.
type phase uint8

const (
	phaseRunning  phase = iota
	phaseStopping       // ranks were sent the signal that stops them
	phaseTerm           // a milder signal was followed by SIGTERM; SIGKILL is next
	phaseKilled         // SIGKILL was sent to every process
)

// Supervisor decides what to do about each event of a running job. It is a state machine: it never blocks, reads no
// clock and touches no process. It is not safe for concurrent use.
type Supervisor struct {
	cfg   SupervisorConfig
	ranks []*rankState // by number; nil where no rank has it
	nodes []nodeState

	phase      phase
	cause      Cause
	stoppedAt  time.Time      // when the cause happened
	stopSignal syscall.Signal // the first one that ranks were sent to stop them
	signal     syscall.Signal // with CauseSignal and CauseEngine
	text, hint string         // with CauseStart, CauseNode and CauseEarly
	startCode  int            // with CauseStart

	lost          *OutputLost
	stuck         *MPIStuck
	orphans       []string
	suspended     bool
	forwarded     []syscall.Signal
	engineSignals []syscall.Signal // those that a resource manager sent to ranks
	pending       *Signalled       // a SIGTERM to the launcher that may have reached ranks, too
	tolerated     bool             // a note on a tolerated failure was given
	awaiting      time.Duration    // how long others may end by themselves after a failure; 0 before one
	early         *rankState       // the first rank that succeeded, with Policy.EarlyExit
	endedAt       time.Time        // when the last rank exited
}

// rankState is what the supervisor knows about one rank.
type rankState struct {
	number, node int
	pid          int     // 0 until its node reports it
	exit         *Exited // nil until its process has ended
	abort        *MPIAborted
	before       bool // its process ended before the launcher stopped the job, whatever its host's clock says
	killed       bool // its process ended after the launcher sent SIGKILL to all
	spawning     bool // [Supervisor.Grow] added it, and its node has not answered yet
	unstarted    bool // it could not be started
}

type nodeState struct {
	ranks   []*rankState
	running int  // how many of them run or are being started
	cleaned bool // no process of the job is left there, or the node is lost
}

// NewSupervisor returns a supervisor for ranks that are being started, and the first orders.
func NewSupervisor(cfg SupervisorConfig) (*Supervisor, []Order) {
	s := &Supervisor{cfg: cfg, nodes: make([]nodeState, len(cfg.Nodes))}
	for node, ranks := range cfg.Nodes {
		s.add(node, ranks, false)
	}
	if cfg.Timeout > 0 {
		return s, []Order{Arm{TimerDeadline, cfg.Timeout}}
	}
	return s, nil
}

func (s *Supervisor) add(node int, ranks []int, spawning bool) {
	n := &s.nodes[node]
	for _, number := range ranks {
		r := &rankState{number: number, node: node, spawning: spawning}
		if missing := number + 1 - len(s.ranks); missing > 0 {
			s.ranks = append(s.ranks, make([]*rankState, missing)...)
		}
		s.ranks[number], n.ranks = r, append(n.ranks, r)
	}
	n.running += len(ranks)
}

// rank returns nil where the job has no such rank.
func (s *Supervisor) rank(number int) *rankState {
	if number < 0 || number >= len(s.ranks) {
		return nil
	}
	return s.ranks[number]
}

// Done reports whether no process of the job is left on any node.
func (s *Supervisor) Done() bool {
	return !slices.ContainsFunc(s.nodes, func(n nodeState) bool { return !n.cleaned })
}

// State returns "running", "suspended" or "ending".
func (s *Supervisor) State() string {
	switch {
	case s.phase != phaseRunning || !s.ranksLeft():
		return "ending"
	case s.suspended:
		return "suspended"
	}
	return "running"
}

// PID returns a rank's process, 0 if it was not started.
func (s *Supervisor) PID(rank int) int {
	if r := s.rank(rank); r != nil {
		return r.pid
	}
	return 0
}

// Exit returns how a rank's process ended; false if it has not.
func (s *Supervisor) Exit(rank int) (Exited, bool) {
	if r := s.rank(rank); r != nil && r.exit != nil {
		return *r.exit, true
	}
	return Exited{}, false
}

// Ended reports whether a rank has no process any more, or never had one.
func (s *Supervisor) Ended(rank int) bool {
	r := s.rank(rank)
	return r == nil || r.exit != nil || r.unstarted
}

// NumRunning returns how many ranks run, or are being started, on each node.
func (s *Supervisor) NumRunning() []int {
	running := make([]int, len(s.nodes))
	for i, n := range s.nodes {
		running[i] = n.running
	}
	return running
}

// CanGrow reports whether a node may get more ranks: no rank has failed, the job is not being stopped, and a rank of
// the node runs.
func (s *Supervisor) CanGrow(node int) bool {
	n := s.nodes[node]
	return s.phase == phaseRunning && s.awaiting == 0 && n.running > 0
}

// Grow adds ranks that are going to be started in the running job, by node. It fails unless each of the nodes
// [Supervisor.CanGrow].
func (s *Supervisor) Grow(ranks map[int][]int) error {
	for node := range ranks {
		if !s.CanGrow(node) {
			return errors.New("the job is stopping and takes no more ranks")
		}
	}
	for node, numbers := range ranks {
		s.add(node, numbers, true)
	}
	return nil
}

// Next returns what to do about ev.
func (s *Supervisor) Next(ev Event) []Order {
	switch ev := ev.(type) {
	case Running:
		s.setPIDs(ev.PIDs)
	case StartFailed:
		return s.startFailed(ev)
	case Growth:
		return s.grown(ev)
	case Exited:
		return s.exited(ev)
	case CleanedUp:
		s.nodes[ev.Node].cleaned, s.orphans = true, append(s.orphans, ev.Orphans...)
	case Signalled:
		return s.signalled(ev)
	case GraceKnown:
		return s.graceKnown(ev)
	case Expired:
		return s.expired(ev)
	case OutputLost:
		return s.outputLost(ev)
	case Hung:
		if s.cfg.OnHang != HangReport {
			return s.stop(CauseHang, syscall.SIGTERM, ev.At)
		}
	case Cancelled:
		return s.stop(CauseCancelled, syscall.SIGTERM, ev.At)
	case NodeLost:
		return s.nodeLost(ev)
	case NodesJoined:
		return s.nodesJoined(ev)
	case EngineSignalled:
		return s.engineSignalled(ev)
	case EngineStopping:
		return s.stopByEngine(syscall.SIGTERM, ev.At)
	case MPIAborted:
		return s.mpiAborted(ev)
	case MPIStuck:
		return s.mpiStuck(ev)
	}
	return nil
}

func (s *Supervisor) setPIDs(pids map[int]int) {
	for number, pid := range pids {
		if r := s.rank(number); r != nil {
			r.pid = pid
		}
	}
}

// startFailed counts ranks that were not started as ended, so that the node is cleaned up after those that were. A
// node reports ranks that it is still spawning by a Growth.
func (s *Supervisor) startFailed(ev StartFailed) []Order {
	if s.phase == phaseRunning {
		s.text, s.hint, s.startCode = ev.Text, ev.Hint, ev.Code
	}
	n := &s.nodes[ev.Node]
	for _, r := range n.ranks {
		if r.pid == 0 && r.exit == nil && !r.spawning && !r.unstarted {
			r.unstarted = true
			n.running--
		}
	}
	orders := s.stop(CauseStart, syscall.SIGTERM, ev.At)
	return append(orders, s.cleanup(ev.Node, ev.At)...)
}

// grown drops ranks that could not be started: they never belonged to the job.
func (s *Supervisor) grown(ev Growth) []Order {
	s.setPIDs(ev.PIDs)
	n := &s.nodes[ev.Node]
	for _, number := range ev.Ranks {
		r := s.ranks[number]
		r.spawning = false
		if _, started := ev.PIDs[number]; started || r.exit != nil || n.cleaned {
			continue
		}
		s.ranks[number] = nil
		n.ranks = slices.DeleteFunc(n.ranks, func(other *rankState) bool { return other == r })
		n.running--
	}
	return s.cleanup(ev.Node, ev.At)
}

func (s *Supervisor) exited(ev Exited) []Order {
	r := s.rank(ev.Rank)
	if r == nil || r.exit != nil {
		return nil
	}
	r.exit, r.before, r.killed, s.endedAt = &ev, s.endsByItself(), s.phase == phaseKilled, ev.At
	s.nodes[r.node].running--
	return append(s.judge(r), s.cleanup(r.node, ev.At)...)
}

// judge decides what the end of a rank means for the others.
func (s *Supervisor) judge(r *rankState) []Order {
	failed := r.failed()
	switch {
	case failed && s.cfg.Policy.Continue:
		return s.tolerate(r)
	case (failed || s.awaiting > 0) && !s.ranksLeft():
		return s.stop(CauseRank, syscall.SIGTERM, r.exit.At)
	case failed:
		return s.awaitOthers(r)
	case s.phase == phaseRunning && s.ranksLeft() && s.early == nil && s.cfg.Policy.EarlyExit != EarlyAllowed:
		s.early = r
		return []Order{Arm{TimerEarly, earlyDelay}}
	}
	return nil
}

// tolerate notes the first failure after which the others go on.
func (s *Supervisor) tolerate(r *rankState) []Order {
	if s.tolerated || s.phase != phaseRunning || !s.ranksLeft() {
		return nil
	}
	s.tolerated = true
	return []Order{Note{fmt.Sprintf("rank %d failed after %s: %s; the others go on (--on-failure continue)",
		r.number, round(s.since(r.failedAt())), how(s.rankEnd(r), s.cfg.SignalName))}}
}

// awaitOthers gives the other ranks time to end before a signal of the launcher hides how they do: those that fail in
// the same way, and the peer that a rank lost, which failed first.
func (s *Supervisor) awaitOthers(r *rankState) []Order {
	delay := failureDelay
	switch {
	case r.exit.PeerLost || s.maybeEngine(r):
		delay = peerDelay
	case slices.Contains(s.cfg.Checkpointed, r.exit.Code):
		delay = max(delay, s.cfg.Grace)
	case r.exit.OthersBehind:
		delay = max(delay, min(time.Duration(s.since(r.exit.At)), maxStartDelay))
	}
	if s.phase != phaseRunning || s.awaiting > 0 && s.awaiting <= delay {
		return nil
	}
	s.awaiting = delay
	return []Order{Arm{TimerFailure, delay}}
}

func (s *Supervisor) earlyExpired(at time.Time) []Order {
	if s.phase != phaseRunning || !s.ranksLeft() {
		return nil
	}
	text := fmt.Sprintf("rank %d exited 0, but %s later others still run: %s", s.early.number,
		earlyDelay, shortRanges(s.alive()))
	if s.cfg.Policy.EarlyExit == EarlyFail {
		s.text = text
		return s.stop(CauseEarly, syscall.SIGTERM, at)
	}
	return []Order{Note{text}}
}

// alive returns the sorted ranks without an exit.
func (s *Supervisor) alive() (ranks []int) {
	for _, r := range s.ranks {
		if r != nil && r.exit == nil {
			ranks = append(ranks, r.number)
		}
	}
	return ranks
}

// cleanup has a node end the orphans of its ranks once the last of these has ended.
func (s *Supervisor) cleanup(node int, at time.Time) []Order {
	if s.nodes[node].running > 0 || s.nodes[node].cleaned {
		return nil
	}
	return []Order{Cleanup{Node: node, Grace: s.orphanGrace(at)}}
}

// orphanGrace is the rest of the grace in a job that is being stopped, and none in one that is being killed.
func (s *Supervisor) orphanGrace(at time.Time) time.Duration {
	grace := min(s.cfg.Grace, maxOrphanGrace)
	switch s.phase {
	case phaseRunning:
		return grace
	case phaseStopping:
		return max(0, min(grace, s.cfg.Grace-at.Sub(s.stoppedAt)))
	}
	return 0
}

// stop sends every rank a signal, once; later causes change nothing.
func (s *Supervisor) stop(cause Cause, sig syscall.Signal, at time.Time) []Order {
	if s.phase != phaseRunning {
		if s.cause == CauseJoined && slices.Contains(overJoined, cause) { // the job is to end after all
			s.cause, s.text = cause, ""
		}
		return nil
	}
	if s.awaiting > 0 && s.awaiting != peerDelay && cause != CauseSignal && cause != CauseEngine {
		// the failure came first
		cause, s.text, s.hint = CauseRank, "", ""
	}
	s.phase, s.cause, s.stopSignal, s.stoppedAt = phaseStopping, cause, sig, at
	if !s.ranksLeft() {
		return nil
	}
	orders := []Order{stopSignal(sig)}
	if s.suspended {
		orders = append(orders, Resume{})
	}
	orders = append(orders, Arm{TimerGrace, s.cfg.Grace})
	if s.cfg.Grace > 2*noteDelay {
		orders = append(orders, Arm{TimerNote, noteDelay})
	}
	return orders
}

// stopSignal is the first signal of an end. Ctrl-C reaches all at once, as on a terminal: a Python program waits for
// its child processes after it. Others reach helpers, such as PyTorch's data loaders, when the rank has saved what it
// needs them for.
func stopSignal(sig syscall.Signal) Signal {
	return Signal{spec.Signal{Number: sig, Group: true, LeadersFirst: sig != syscall.SIGINT}}
}

// noteAlive notes for which ranks the end of the job waits.
func (s *Supervisor) noteAlive() []Order {
	ranks := s.alive()
	if len(ranks) == 0 {
		return nil
	}
	text := fmt.Sprintf("waiting up to %s for %s to stop: %s", s.cfg.Grace, plural(len(ranks), "rank"), shortRanges(ranks))
	if s.cause == CauseSignal && s.signal == syscall.SIGINT {
		text += "; press Ctrl-C again to kill them"
	}
	return []Order{Note{text}}
}

func (s *Supervisor) ranksLeft() bool {
	return slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.running > 0 })
}

func (s *Supervisor) expired(ev Expired) []Order {
	switch ev.Timer {
	case TimerDeadline:
		return s.stop(CauseTimeout, syscall.SIGTERM, ev.At)
	case TimerGrace, TimerKill:
		if s.phase == phaseStopping || s.phase == phaseTerm && ev.Timer == TimerKill {
			return s.escalate()
		}
	case TimerNote:
		if s.phase == phaseStopping {
			return s.noteAlive()
		}
	case TimerFailure:
		return s.stop(CauseRank, syscall.SIGTERM, ev.At)
	case TimerEarly:
		return s.earlyExpired(ev.At)
	case TimerEngine:
		return s.engineExpired()
	}
	return nil
}

// escalate takes the next harder step: SIGTERM if it wasn't sent, then SIGKILL.
func (s *Supervisor) escalate() []Order {
	if s.phase == phaseStopping && s.stopSignal != syscall.SIGTERM {
		s.phase = phaseTerm
		return []Order{Signal{spec.Signal{Number: syscall.SIGTERM, Group: true}}, Arm{TimerKill, killDelay}}
	}
	s.phase = phaseKilled
	return []Order{Kill{}}
}

func (s *Supervisor) signalled(ev Signalled) []Order {
	switch {
	case s.cfg.Engine != "" && ev.Signal == syscall.SIGTERM && s.phase == phaseRunning:
		return s.awaitEngine(ev)
	case ev.Signal == s.cfg.Preempt:
		return s.preempt(ev.At, false)
	case Ends(ev.Signal) || slices.Contains(s.cfg.EndSignals, ev.Signal):
		return s.stopBySignal(ev)
	case ev.Signal == syscall.SIGTSTP:
		s.suspended = true
		return []Order{Suspend{}}
	case ev.Signal == syscall.SIGCONT:
		s.suspended = false
		return []Order{Resume{}}
	}
	s.forwarded = append(s.forwarded, ev.Signal)
	return []Order{Signal{spec.Signal{Number: ev.Signal}}}
}

// Ends reports whether a signal stops any job gracefully.
func Ends(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
}

// stopBySignal stops the job gracefully; a further Ctrl-C skips the grace. SIGHUP and SIGTERM don't, as a closing
// terminal or an impatient init may send them twice.
func (s *Supervisor) stopBySignal(ev Signalled) []Order {
	if ev.Grace != nil {
		s.cfg.Grace = *ev.Grace
	}
	if s.cause == CauseJoined {
		s.signal = ev.Signal
		s.stop(CauseSignal, ev.Signal, ev.At)
	}
	if s.cause == CauseRank || s.cause == CauseNode {
		s.signal = ev.Signal // the job does not start again
	}
	switch {
	case s.phase == phaseRunning:
		s.signal = ev.Signal
		return s.stop(CauseSignal, ev.Signal, ev.At)
	case s.phase == phaseKilled:
		return nil
	case s.phase == phaseStopping && s.stopSignal == s.cfg.Preempt: // the end that this one announced
		s.stopSignal = ev.Signal
		return []Order{stopSignal(ev.Signal)}
	case ev.Grace != nil: // from now on
		return []Order{Arm{TimerGrace, *ev.Grace}}
	case ev.Signal == syscall.SIGINT:
		return s.escalate()
	}
	return nil
}

// outputLost stops the job if the reader of its standard output has gone away, as it would stop any program in a pipe.
// A full disk loses output but not the job.
func (s *Supervisor) outputLost(ev OutputLost) []Order {
	if s.lost == nil || ev.ReaderGone {
		s.lost = &ev
	}
	if ev.ReaderGone && ev.Stream == 1 {
		return s.stop(CauseReaderGone, syscall.SIGTERM, ev.At)
	}
	return nil
}

// firstFailure returns the rank that failed first by its own clock, among those that failed before the launcher could
// have ended them; nil if none exists. Ranks that lost a peer come after those that did not.
func (s *Supervisor) firstFailure() *rankState {
	var own []*rankState
	for _, r := range s.ranks {
		if r.failed() && s.byItself(r) {
			own = append(own, r)
		}
	}
	if len(own) == 0 {
		return nil
	}
	victims := func(r *rankState) int {
		if r.exit != nil && r.exit.PeerLost {
			return 1
		}
		return 0
	}
	return slices.MinFunc(own, func(a, b *rankState) int {
		return cmp.Or(victims(a)-victims(b), a.failedAt().Compare(b.failedAt()))
	})
}

func (r *rankState) failed() bool {
	return r != nil && (r.abort != nil || r.exit != nil && (r.exit.Code != 0 || r.exit.Signal != 0) || r.unfinalized())
}

// failedAt is when a rank's failure began, as far as it is known.
func (r *rankState) failedAt() time.Time {
	switch {
	case r.abort != nil:
		return r.abort.At
	case !r.exit.RaisedAt.IsZero() && r.exit.RaisedAt.Before(r.exit.At):
		return r.exit.RaisedAt
	}
	return r.exit.At
}

// byItself reports whether no signal of the launcher or of a resource manager can have ended a rank. Its node knows
// best whether its own signal came first: clocks of other hosts are estimated.
func (s *Supervisor) byItself(r *rankState) bool {
	at := r.failedAt()
	switch {
	case s.cause == CausePreempted: // a signal that ranks handle, and then end
		return r.exit == nil || r.before && r.exit.Signal != s.signal
	case r.exit != nil && !r.exit.SignalledAt.IsZero() && at.After(r.exit.SignalledAt):
		return false
	case s.cause == CauseEngine && s.endedByEngine(r, s.stoppedAt): // whose signal arrived before its notice
		return false
	}
	return s.stoppedAt.IsZero() || r.before || !at.After(s.stoppedAt)
}

// hungAfterError reports whether a rank recorded an error before the job was stopped, and was ended by a signal later:
// it hung on its way out.
func (s *Supervisor) hungAfterError(r *rankState) bool {
	return r.abort == nil && r.exit.Signal != 0 && !r.exit.RaisedAt.IsZero() && s.byItself(r) &&
		!s.stoppedAt.IsZero() && r.exit.At.After(s.stoppedAt)
}
