package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

// killDelay is the time between a late SIGTERM and SIGKILL: with the grace it
// stays below the promised grace + 2 s.
const killDelay = time.Second

// maxLeftoverGrace bounds the time that processes which ranks left behind get
// after a good end, however long the grace is.
const maxLeftoverGrace = 10 * time.Second

// SupervisorConfig is what the supervisor has to know of a plan.
type SupervisorConfig struct {
	Nodes     [][]int   // the ranks of each node
	StartedAt time.Time // from when on the job's time counts
	Grace     time.Duration
	Timeout   time.Duration
	// TimeoutCode is the exit code at the deadline, 0: ExitTimeout.
	TimeoutCode int
	Policy      Policy
	OnHang      OnHang
	// Engine is the resource manager that started the agents, as people write it, "" if
	// none did.
	Engine string
	// SignalName names signals in remarks.
	SignalName SignalNamer
	// EndSignals are the signals that end the job in order, beside SIGINT,
	// SIGTERM and SIGHUP; every other one is forwarded.
	EndSignals []syscall.Signal
}

// phase is how far the end of a job has come.
type phase uint8

const (
	phaseRunning phase = iota
	phaseAsked         // ranks were asked to end
	phaseTerm          // SIGTERM after a milder signal, SIGKILL is near
	phaseKilled        // SIGKILL to everything
)

// Supervisor decides what to do about each event of a running job. It is a
// pure state machine: it never blocks, reads no clock and touches no process.
type Supervisor struct {
	cfg       SupervisorConfig
	phase     phase
	asked     syscall.Signal // the signal that ranks were asked with
	stoppedAt time.Time      // when the first cause to stop happened
	cause     Cause
	signal    syscall.Signal // with CauseSignal
	failure   *StartFailed
	lost      *OutputLost
	lostNode  *NodeLost
	exits     map[int]*Exited
	aborts    map[int]*MPIAborted // by rank
	stuck     *MPIStuck
	node      map[int]int  // node by rank
	starting  map[int]bool // ranks that the running job gets, of which their node has not told yet
	unstarted map[int]bool // ranks that count as ended since they could not be started
	waiting   []int        // number of ranks that still run, by node
	gone      []bool
	left      []string
	suspended bool
	forwarded []syscall.Signal
	byEngine  []syscall.Signal // those that a resource manager has sent to ranks
	pending   *Signalled       // SIGTERM to the launcher, of which it is not known whether ranks have it
	tolerated bool             // a failure was, and that was said
	victim    *Exited          // the first that complained of a peer, while that peer is waited for
	early     *Exited          // the first that ended well, where that matters
	earlyText string
	pids      map[int]int
	endedAt   time.Time
}

// NewSupervisor returns a supervisor for ranks that are being started, and the
// first orders.
func NewSupervisor(cfg SupervisorConfig) (*Supervisor, []Order) {
	s := &Supervisor{
		cfg: cfg, exits: map[int]*Exited{}, aborts: map[int]*MPIAborted{}, node: map[int]int{}, pids: map[int]int{},
		starting: map[int]bool{}, unstarted: map[int]bool{},
		waiting: make([]int, len(cfg.Nodes)), gone: make([]bool, len(cfg.Nodes)),
	}
	s.cfg.Nodes = slices.Clone(cfg.Nodes) // it may grow
	for n, ranks := range cfg.Nodes {
		s.waiting[n] = len(ranks)
		for _, r := range ranks {
			s.node[r] = n
		}
	}
	if cfg.Timeout > 0 {
		return s, []Order{Arm{TimerDeadline, cfg.Timeout}}
	}
	return s, nil
}

// Done reports whether nothing of the job is left on any node.
func (s *Supervisor) Done() bool { return !slices.Contains(s.gone, false) }

// State says in a word how far the job has come: running, suspended or ending.
func (s *Supervisor) State() string {
	switch {
	case s.phase != phaseRunning || !s.ranksLeft():
		return "ending"
	case s.suspended:
		return "suspended"
	}
	return "running"
}

// Next returns what to do about ev.
func (s *Supervisor) Next(ev Event) []Order {
	switch ev := ev.(type) {
	case Running:
		maps.Copy(s.pids, ev.PIDs)
	case StartFailed:
		return s.startFailed(ev)
	case Growth:
		return s.grown(ev)
	case Exited:
		return s.exited(ev)
	case CleanedUp:
		s.gone[ev.Node], s.left = true, append(s.left, ev.Orphans...)
	case Signalled:
		return s.signalled(ev)
	case Expired:
		return s.expired(ev)
	case OutputLost:
		return s.outputLost(ev)
	case Hung:
		if s.cfg.OnHang == HangStop {
			return s.stop(CauseHang, syscall.SIGTERM, ev.At)
		}
	case Cancelled:
		return s.stop(CauseCancelled, syscall.SIGTERM, ev.At)
	case NodeLost:
		return s.nodeLost(ev)
	case EngineSignalled:
		return s.engineSignalled(ev)
	case EngineStopping:
		return s.endByEngine(syscall.SIGTERM, ev.At)
	case MPIAborted:
		return s.mpiAborted(ev)
	case MPIStuck:
		return s.mpiStuck(ev)
	}
	return nil
}

// startFailed: ranks that were not started count as ended, so that the node
// becomes empty when those that were are gone. Of others, which are about to be started, the
// node tells by itself.
func (s *Supervisor) startFailed(ev StartFailed) []Order {
	if s.failure == nil {
		s.failure = &ev
	}
	for _, r := range s.cfg.Nodes[ev.Node] {
		if _, started := s.pids[r]; !started && s.exits[r] == nil && !s.starting[r] && !s.unstarted[r] {
			s.unstarted[r] = true
			s.waiting[ev.Node]--
		}
	}
	orders := s.stop(CauseStart, syscall.SIGTERM, ev.At)
	return append(orders, s.endIfEmpty(ev.Node, ev.At)...)
}

func (s *Supervisor) exited(ev Exited) []Order {
	node, known := s.node[ev.Rank]
	if !known || s.exits[ev.Rank] != nil {
		return nil
	}
	ev.aborted, ev.killed = s.aborts[ev.Rank], s.phase == phaseKilled
	s.exits[ev.Rank] = &ev
	s.endedAt = ev.At
	s.waiting[node]--
	return append(s.judge(&ev), s.endIfEmpty(node, ev.At)...)
}

// judge says what the end of a rank means for the others.
func (s *Supervisor) judge(ev *Exited) []Order {
	switch {
	case s.victim != nil && !s.ranksLeft():
		return s.stop(CauseRank, syscall.SIGTERM, ev.At)
	case ev.failed() && !s.cfg.Policy.Continue && (ev.PeerLost || s.maybeEngine(ev)) && s.ranksLeft():
		return s.awaitPeer(ev)
	case ev.failed() && !s.cfg.Policy.Continue:
		return s.stop(CauseRank, syscall.SIGTERM, ev.At)
	case s.phase != phaseRunning || !s.ranksLeft():
		return nil
	case ev.failed() && !s.tolerated:
		s.tolerated = true
		return []Order{s.toleratedNote(ev)}
	case !ev.failed() && s.early == nil && s.cfg.Policy.EarlyExit != EarlyAllowed:
		s.early = ev
		return []Order{Arm{TimerEarly, earlyDelay}}
	}
	return nil
}

func (s *Supervisor) toleratedNote(ev *Exited) Note {
	return Note{fmt.Sprintf("rank %d failed after %s, %s; the others go on (--on-failure continue)",
		ev.Rank, round(s.since(ev.when())), how(s.rankEnd(ev.Rank), s.cfg.SignalName))}
}

// peerDelay is how long a rank may take to end after its connections are gone.
const peerDelay = time.Second

// awaitPeer gives the peer that a rank complained of the time to end: it was first,
// and a signal of ours would hide how it ended.
func (s *Supervisor) awaitPeer(ev *Exited) []Order {
	if s.phase != phaseRunning || s.victim != nil {
		return nil
	}
	s.victim = ev
	return []Order{Arm{TimerPeer, peerDelay}}
}

// endedEarly is due some time after the first rank that ended well.
func (s *Supervisor) endedEarly(at time.Time) []Order {
	if s.phase != phaseRunning || !s.ranksLeft() {
		return nil
	}
	s.earlyText = fmt.Sprintf("rank %d ended with exit code 0, and %s later others still run: %s", s.early.Rank,
		earlyDelay, foldShort(s.alive()))
	if s.cfg.Policy.EarlyExit == EarlyFail {
		return s.stop(CauseEarly, syscall.SIGTERM, at)
	}
	return []Order{Note{s.earlyText}}
}

// alive are the ranks that have not ended, sorted.
func (s *Supervisor) alive() (ranks []int) {
	for _, node := range s.cfg.Nodes {
		for _, r := range node {
			if s.exits[r] == nil {
				ranks = append(ranks, r)
			}
		}
	}
	slices.Sort(ranks)
	return ranks
}

func (e *Exited) failed() bool {
	return e.Code != 0 || e.Signal != 0 || e.aborted != nil || e.unfinalized()
}

// endIfEmpty has a node swept once its last rank has ended.
func (s *Supervisor) endIfEmpty(node int, at time.Time) []Order {
	if s.waiting[node] > 0 || s.gone[node] {
		return nil
	}
	return []Order{Cleanup{Node: node, Grace: s.leftoverGrace(at)}}
}

// leftoverGrace is what processes get that ranks left behind: in a job that is
// being ended only what is left of its grace, in one that is being killed none.
func (s *Supervisor) leftoverGrace(at time.Time) time.Duration {
	grace := min(s.cfg.Grace, maxLeftoverGrace)
	switch s.phase {
	case phaseRunning:
		return grace
	case phaseAsked:
		return max(0, min(grace, s.cfg.Grace-at.Sub(s.stoppedAt)))
	}
	return 0
}

// stop asks every rank to end, once; later causes only wait for it.
func (s *Supervisor) stop(cause Cause, sig syscall.Signal, at time.Time) []Order {
	if s.phase != phaseRunning {
		return nil
	}
	s.phase, s.cause, s.asked, s.stoppedAt = phaseAsked, cause, sig, at
	if !s.ranksLeft() {
		return nil
	}
	orders := []Order{Signal{Signal: sig, Group: true}}
	if s.suspended {
		s.suspended = false
		orders = append(orders, Resume{})
	}
	orders = append(orders, Arm{TimerGrace, s.cfg.Grace})
	if s.cfg.Grace > 2*remarkDelay {
		orders = append(orders, Arm{TimerNote, remarkDelay})
	}
	return orders
}

// remarkDelay is how long nothing is said of ranks that have not ended.
const remarkDelay = time.Second

// remark says for whom the job's end waits.
func (s *Supervisor) remark() []Order {
	ranks := s.alive()
	if len(ranks) == 0 {
		return nil
	}
	have, verb := plural(len(ranks), "rank"), "have"
	if len(ranks) == 1 {
		verb = "has"
	}
	text := fmt.Sprintf("%s %s %s to end: %s", have, verb, s.cfg.Grace, foldShort(ranks))
	if s.cause == CauseSignal {
		text += "; Ctrl-C, or another SIGINT, kills them"
	}
	return []Order{Note{text}}
}

func (s *Supervisor) ranksLeft() bool {
	return slices.ContainsFunc(s.waiting, func(n int) bool { return n > 0 })
}

func (s *Supervisor) expired(ev Expired) []Order {
	switch {
	case ev.Timer == TimerDeadline:
		return s.stop(CauseTimeout, syscall.SIGTERM, ev.At)
	case ev.Timer == TimerGrace && s.phase == phaseAsked, ev.Timer == TimerKill && s.phase == phaseTerm:
		return s.escalate()
	case ev.Timer == TimerNote && s.phase == phaseAsked:
		return s.remark()
	case ev.Timer == TimerPeer:
		return s.stop(CauseRank, syscall.SIGTERM, ev.At)
	case ev.Timer == TimerEarly:
		return s.endedEarly(ev.At)
	case ev.Timer == TimerEngine:
		return s.engineExpired(ev.At)
	}
	return nil
}

// escalate takes the next harder step: SIGTERM if it wasn't, then SIGKILL.
func (s *Supervisor) escalate() []Order {
	if s.phase == phaseAsked && s.asked != syscall.SIGTERM {
		s.phase = phaseTerm
		return []Order{Signal{Signal: syscall.SIGTERM, Group: true}, Arm{TimerKill, killDelay}}
	}
	s.phase = phaseKilled
	return []Order{Kill{}}
}

func (s *Supervisor) signalled(ev Signalled) []Order {
	switch {
	case s.cfg.Engine != "" && ev.Signal == syscall.SIGTERM && s.phase == phaseRunning:
		return s.awaitEngine(ev)
	case s.ends(ev.Signal):
		return s.endSignal(ev)
	case ev.Signal == syscall.SIGTSTP:
		s.suspended = true
		return []Order{Suspend{}}
	case ev.Signal == syscall.SIGCONT:
		s.suspended = false
		return []Order{Resume{}}
	}
	s.forwarded = append(s.forwarded, ev.Signal)
	return []Order{Signal{Signal: ev.Signal}}
}

func (s *Supervisor) ends(sig syscall.Signal) bool {
	return Ends(sig) || slices.Contains(s.cfg.EndSignals, sig)
}

// Ends reports whether a signal ends any job in order.
func Ends(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
}

// endSignal: the first ends the job in order, a further Ctrl-C skips the grace.
// SIGHUP and SIGTERM may come twice from one closing terminal or one impatient
// init, so they don't.
func (s *Supervisor) endSignal(ev Signalled) []Order {
	if ev.Grace != nil {
		s.cfg.Grace = *ev.Grace
	}
	switch {
	case s.phase == phaseRunning:
		s.signal = ev.Signal
		return s.stop(CauseSignal, ev.Signal, ev.At)
	case ev.Grace != nil && s.phase != phaseKilled: // from now on
		return []Order{Arm{TimerGrace, *ev.Grace}}
	}
	if ev.Signal != syscall.SIGINT || s.phase == phaseKilled {
		return nil
	}
	return s.escalate()
}

// outputLost: a reader that went away ends the job as it ends any program in a
// pipe; a full disk loses output but not the job.
func (s *Supervisor) outputLost(ev OutputLost) []Order {
	if s.lost == nil || ev.ReaderGone {
		s.lost = &ev
	}
	if ev.ReaderGone && ev.Stream == 1 {
		return s.stop(CauseReaderGone, syscall.SIGTERM, ev.At)
	}
	return nil
}

func (s *Supervisor) nodeLost(ev NodeLost) []Order {
	if s.gone[ev.Node] {
		return nil
	}
	if s.lostNode == nil {
		s.lostNode = &ev
	}
	s.gone[ev.Node], s.waiting[ev.Node] = true, 0
	return s.stop(CauseNode, syscall.SIGTERM, ev.At)
}

// firstFailure is the rank whose failure came first by its own clock: among
// those that failed before anything of ours could have ended them, the one with
// the earliest recorded error, else the earliest exit. One that complained of a
// peer comes after those that did not.
func (s *Supervisor) firstFailure() *Exited {
	var own []*Exited
	for _, e := range s.exits {
		if e.failed() && s.byItself(e) {
			own = append(own, e)
		}
	}
	for rank, a := range s.aborts {
		if e := (&Exited{Exit: spec.Exit{Rank: rank}, aborted: a}); s.exits[rank] == nil && s.byItself(e) { // node lost
			own = append(own, e)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return slices.MinFunc(own, func(a, b *Exited) int {
		return cmp.Or(later(a.PeerLost, b.PeerLost), a.when().Compare(b.when()), cmp.Compare(a.Rank, b.Rank))
	})
}

// later compares two as false before true.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// byItself reports whether a rank's end was its own doing. Whether it came after the
// node's signal its node knows best: clocks of other hosts are estimated.
func (s *Supervisor) byItself(e *Exited) bool {
	if !e.SignalledAt.IsZero() && e.when().After(e.SignalledAt) {
		return false
	}
	if s.cause == CauseEngine && s.endedByEngine(e, s.stoppedAt) { // of which the head heard later than of the signal
		return false
	}
	return s.stoppedAt.IsZero() || !e.when().After(s.stoppedAt)
}

// endedRaised reports whether a rank that had told of an error before the job was
// being ended was then ended by a signal of ours: it hung on its way out.
func (s *Supervisor) endedRaised(e *Exited) bool {
	return e.aborted == nil && e.Signal != 0 && !e.RaisedAt.IsZero() && s.byItself(e) && !s.stoppedAt.IsZero() &&
		e.At.After(s.stoppedAt)
}

// when is the time at which a rank's trouble began, as far as it is known.
func (e *Exited) when() time.Time {
	if e.aborted != nil {
		return e.aborted.At
	}
	if !e.RaisedAt.IsZero() && e.RaisedAt.Before(e.At) {
		return e.RaisedAt
	}
	return e.At
}
