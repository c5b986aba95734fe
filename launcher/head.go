package launcher

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/world"
)

// How much of each output stream may be under way between the pipes of a node's ranks
// and our own standard output, in bytes.
const (
	maxWindow = 1 << 20  // of one node
	allWindow = 16 << 20 // of all, as long as minWindow is left to each
	minWindow = 32 << 10
)

// head drives one attempt of a job: it carries events to the supervisor and its orders to the nodes. What is not
// guarded is set before the ranks start, and read only from then on.
type head struct {
	settings *settings
	spec     *Spec
	nodes    []*node                  // as the plan numbers them
	plan     atomic.Pointer[job.Plan] // it grows when ranks spawn others
	start    func(*node) *wire.Start
	stdio    wire.Stdio
	exchange *exchangeHub
	engine   *engineAgents // nil: no resource manager started the agents
	monitor  *monitor      // nil: the job is in no registry
	signals  *signals
	began    time.Time // nothing of the attempt is older

	// What ranks print and read.
	console *output.Console
	credits []outputCredit // by node
	logs    *headLogs      // nil: nodes write their own
	stdin   *stdinPump
	nccl    ncclObserver

	// What was found out about ranks that come no further.
	stall      atomic.Pointer[job.Stall]
	hang       atomic.Pointer[job.Hang]
	inspected  chan answer[wire.Hung]
	inspecting sync.Mutex // see inspectRanks
	exits      exitGate

	numStarted atomic.Int32 // nodes that have said which ranks run
	running    atomic.Int32 // nodes whose ranks are not stopped yet, while it is waited for that

	// moreRanks plans what a rank asks for by MPI_Comm_spawn.
	planSpawn func(p *job.Plan, wish job.SpawnRequest, number int) (*job.Plan, *job.Spawned, error)
	// begun is closed when all nodes were told to start their ranks: until then nobody there has use for what those of
	// others want of them.
	begun chan struct{}
	over  chan struct{} // closed when the supervisor is done

	mu           sync.Mutex // guards what follows
	sup          *job.Supervisor
	timers       []*time.Timer
	reportedEnds map[[2]int]bool // ranks, and streams of ranks, whose ends nodes have told
	spawns       spawns
}

// engineSignals reports whether ranks hear by themselves of signals that come to this process.
func (h *head) engineSignalsRanks() bool { return h.spec.Join != nil && h.spec.Join.EngineSignals }

// run starts the plan's ranks and returns when nothing of the job is left.
func (h *head) run(ctx context.Context) (job.Result, error) {
	supervision := h.plan.Load().Supervision()
	h.began = time.Now()
	supervision.StartedAt, supervision.SignalName = h.began, diagnosis.SignalName
	if h.engine != nil {
		supervision.Engine = h.engine.title
	}
	sup, orders := job.NewSupervisor(supervision)
	h.sup = sup
	config, err := h.consoleConfig()
	if err != nil {
		return job.Result{}, err
	}
	if h.logs, err = h.openHeadLogs(); err != nil {
		return job.Result{}, err
	}
	h.console = output.NewConsole(config)
	h.nccl.init(h)
	h.settings.console = h.console
	h.monitor.attach(h)
	h.signals.hold()
	h.stdin = h.newStdinPump()
	if err := h.startRanks(); err != nil {
		return job.Result{}, err
	}
	h.stdin.start() // nodes hear of their ranks before they hear of input
	h.armInitial(orders)
	if h.spec.HangTimeout > 0 && len(h.nodes) > 1 {
		go h.watchHang()
	}
	for _, n := range h.nodes {
		go h.watchLink(n)
	}
	h.loop(ctx)
	h.finish(ctx)
	return h.result(), nil
}

// Signals are subscribed to when ranks are there to hear of them: so much later than
// the last was started, and so much later than that was ordered if it takes long.
// signal.Notify costs two threads and dozens of wake-ups, which are spared a job that is
// over by then. A program takes longer than that to start and do something by
// which others learn that it is there.
const (
	listenAfterStart = 700 * time.Microsecond
	listenDelay      = 3 * time.Millisecond
)

// finish writes out what ranks said last and lets go of everything.
func (h *head) finish(ctx context.Context) {
	h.stopTimers()
	h.exchange.close()
	h.stdin.stop()
	h.nccl.report()                                             // not all ranks may have told that they were connected
	if r := h.sup.Result(); r.ExitCode != 0 || r.First != nil { // there will be a report
		h.console.EndStderr()
	}
	h.closeConsole(ctx)
	if h.logs != nil {
		h.logs.close(context.WithoutCancel(ctx))
	}
}

// impatience is how long a reader that does not read may hold up the end of a job
// that somebody wanted to end.
const closeGrace = time.Second

// closeConsole waits until everything is written, which a reader (a pager, a
// stopped terminal) may hold up as long as nobody wants the job to end.
func (h *head) closeConsole(ctx context.Context) {
	closing, cancel := context.WithCancel(ctx)
	defer cancel()
	if cause := h.sup.Result().Cause; cause == job.CauseSignal || cause == job.CauseCancelled ||
		cause == job.CauseTimeout {
		closing, cancel = context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = h.console.Close(closing) // failed writes were reported when they failed
	}()
	for {
		select {
		case <-closed:
			return
		case sig := <-h.signals.received:
			if sig, ok := sig.(syscall.Signal); ok && job.Ends(sig) {
				cancel()
			}
		case <-h.monitor.stopRequests():
			cancel()
		}
	}
}

// post shows the supervisor an event and carries out its orders, on the
// goroutine to which the event came: handing each to another would cost a change
// of threads.
func (h *head) post(ev job.Event) {
	for _, remark := range h.step(ev) {
		h.settings.notify(remark) // without the lock: the console may be posting, too
	}
}

func (h *head) step(ev job.Event) (remarks []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sup.Done() {
		return nil
	}
	remarks = h.execute(h.sup.Next(ev))
	if h.sup.Done() {
		close(h.over)
	}
	return remarks
}

// loop passes on what comes from outside until nothing is left on any node.
func (h *head) loop(ctx context.Context) {
	cancelled, ending := ctx.Done(), h.engine.ending()
	for {
		select {
		case <-h.over:
			return
		case sig := <-h.signals.received:
			h.forwardSignal(sig)
		case w := <-h.monitor.stopRequests():
			h.onStopRequest(w)
		case <-cancelled:
			cancelled = nil
			h.post(job.Cancelled{At: time.Now()})
		case <-ending:
			ending = nil
			h.post(job.EngineStopping{At: time.Now()})
		}
	}
}

// begin has the nodes start their ranks. What they say from now on is the job's.
func (h *head) startRanks() error {
	defer close(h.begun)
	for _, n := range h.nodes {
		hear := func(f wire.Frame) error { return h.handleFrame(n, f) }
		n.handler.Store(&hear)
		n.notices.Store(0)
		if err := n.link.Send(h.start(n)); err != nil {
			return err
		}
	}
	return nil
}

// receive hears of the end of a node's link.
func (h *head) watchLink(n *node) {
	select {
	case <-n.lost:
		h.post(job.NodeLost{Node: n.number, Text: n.name + " is lost: " + n.lossText(n.err), At: time.Now()})
		h.exchange.NodeLost(n.number) // ranks of others, which fail by that, were asked to end before
	case <-h.over:
	}
}

// frame takes what a node says, as far as its link's guard lets it come: output goes to the
// console, all else to the supervisor. An error loses the node.
func (h *head) handleFrame(n *node, f wire.Frame) error {
	switch f.Type {
	case wire.TypeOutput:
		h.signals.listen()
		rank, stream, p, err := f.Stream()
		if err == nil {
			err = h.onOutput(n, rank, stream, p)
		}
		return err
	case wire.TypeNotice:
		return decode(f, n.onNotice)
	case wire.TypeCredit:
		return tryDecode(f, func(c wire.Credit) error { return h.stdin.acknowledge(n.number, c.Bytes) })
	case wire.TypeRunning:
		h.listenOnceRunning()
		return tryDecodeFrom(n, f, h.onRunning)
	case wire.TypeStartFailed:
		return decode(f, func(s wire.StartFailed) { h.post(h.startFailedEvent(n, s)) })
	case wire.TypeEnded:
		return tryDecodeFrom(n, f, h.onEnded)
	case wire.TypeSpawn:
		<-h.begun
		return decodeFrom(n, f, h.onSpawn)
	case wire.TypeGrown:
		return decodeFrom(n, f, h.onGrown)
	case wire.TypeExchange:
		<-h.begun
		return decode(f, func(m wire.Exchange) { h.exchange.receive(n, &m) })
	case wire.TypeSuspend:
		return h.onSuspended()
	case wire.TypeSignal:
		return tryDecodeFrom(n, f, h.onSignal)
	case wire.TypeSignalled:
		return decodeFrom(n, f, h.onEngineSignal)
	case wire.TypeOutputLost:
		return tryDecodeFrom(n, f, h.onOutputLost)
	case wire.TypeHung:
		return decodeFrom(n, f, h.onHung)
	case wire.TypeStalled:
		return tryDecodeFrom(n, f, h.onStalled)
	case wire.TypeUsed:
		return decodeFrom(n, f, h.onUsed)
	case wire.TypeMPI:
		return decodeFrom(n, f, h.onMPI)
	case wire.TypeCleanedUp:
		n.handler.Store(nil)
		return decodeFrom(n, f, h.onGone)
	}
	return wire.Violation("it sent an unexpected %s frame", f.Type)
}

// gone: others may be about to wait in MPI for the node's ranks.
func (h *head) onGone(n *node, g wire.CleanedUp) {
	h.exchange.NodeExited(n.number, h.plan.Load().ProcsOf(n.number))
	h.post(job.CleanedUp{Node: n.number, Orphans: h.labelOrphans(n, g.Orphans)})
}

// print shows what a rank wrote, if it is one of the node's.
func (h *head) onOutput(n *node, rank, stream int, p []byte) error {
	switch {
	case !h.hasRank(n, rank):
		return wire.Violation("it sent output of rank %d, which is not one of its ranks", rank)
	case stream != output.Stdout && stream != output.Stderr:
		return wire.Violation("it sent output of stream %d; ranks have 1 and 2", stream)
	case !h.credits[n.number].receive(stream, len(p)):
		return wire.Violation("it sent more output than it has credit for")
	}
	if h.logs == nil || h.logs.write(n, rank, stream, p) {
		h.console.Write(rank, stream, p)
	}
	h.nccl.observe(n, rank, stream, p)
	return nil
}

// has reports whether a rank is one of the node's.
func (h *head) hasRank(n *node, rank int) bool {
	p := h.plan.Load()
	return rank >= 0 && rank < len(p.Ranks) && p.Ranks[rank].Node == n.number
}

// hasProc reports whether a member of a world is one of the node's ranks.
func (h *head) hasProc(n *node, p world.Proc) bool {
	rank, known := h.plan.Load().RankOf(p)
	return known && h.hasRank(n, rank)
}

func (h *head) startFailedEvent(n *node, s wire.StartFailed) job.StartFailed {
	text := printable.Text(s.Text)
	if len(h.nodes) > 1 {
		text = n.name + ": " + text
	}
	rank, code := s.Rank, s.Code
	if !h.hasRank(n, rank) {
		rank = -1
	}
	if code < job.ExitLauncher || code > job.ExitNotFound {
		code = job.ExitLauncher
	}
	hint, at := printable.Text(s.Hint), h.localTime(n, s.At)
	return job.StartFailed{Node: n.number, Rank: rank, Code: code, Text: text, Hint: hint, At: at}
}

// leftOn says on which node processes are left, where there are several.
func (h *head) labelOrphans(n *node, left []string) []string {
	for i, text := range left {
		if left[i] = printable.Text(text); len(h.nodes) > 1 {
			left[i] = n.name + ": " + left[i]
		}
	}
	return left
}

// suspended: when the ranks of all nodes are stopped this process stops, too, as
// Ctrl-Z does to a program; SIGCONT comes back as a signal.
func (h *head) onSuspended() error {
	if h.running.Add(-1) != 0 {
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
}

func decode[T any, M wire.PointerTo[T]](f wire.Frame, use func(T)) error {
	return tryDecode[T, M](f, func(body T) error { use(body); return nil })
}

// tryDecode is decode for a body that may break the rules.
func tryDecode[T any, M wire.PointerTo[T]](f wire.Frame, use func(T) error) error {
	var body T
	if err := f.Decode(M(&body)); err != nil {
		return wire.Violation("it sent what is no %s frame: %v", f.Type, err)
	}
	return use(body)
}

// decodeFrom and tryDecodeFrom are these for what a node said.
func decodeFrom[T any, M wire.PointerTo[T]](n *node, f wire.Frame, use func(*node, T)) error {
	return decode[T, M](f, func(body T) { use(n, body) })
}

func tryDecodeFrom[T any, M wire.PointerTo[T]](n *node, f wire.Frame, use func(*node, T) error) error {
	return tryDecode[T, M](f, func(body T) error { return use(n, body) })
}

func printables(texts []string) (clean []string) {
	for _, t := range texts {
		clean = append(clean, printable.Text(t))
	}
	return clean
}

// started hears which ranks of a node run.
func (h *head) onRunning(n *node, r wire.Running) error {
	ev := job.Running{Node: n.number, PIDs: make(map[int]int, len(r.Ranks)), At: h.localTime(n, r.At)}
	for _, rank := range r.Ranks {
		if !h.hasRank(n, rank.Rank) || rank.PID < 0 {
			return wire.Violation("it says that it runs rank %d as process %d", rank.Rank, rank.PID)
		}
		ev.PIDs[rank.Rank] = rank.PID
	}
	h.post(ev)
	if h.settings.started == nil || int(h.numStarted.Add(1)) < len(h.nodes) { // each node says it once
		return nil
	}
	p := h.plan.Load()
	pids := make([]int, len(p.Ranks))
	h.mu.Lock()
	for i := range pids {
		pids[i] = h.sup.PID(i)
	}
	h.mu.Unlock()
	h.settings.started(p, pids)
	return nil
}

// at is a moment of a node's clock by ours: within the attempt, whatever the node says.
func (h *head) localTime(n *node, t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	t = n.clock.toLocal(t)
	switch now := time.Now(); {
	case t.After(now):
		return now
	case t.Before(h.began):
		return h.began
	}
	return t
}

// signalledAt hears of a signal that came to the gorun of a node which joined.
func (h *head) onSignal(n *node, m wire.Signal) error {
	switch sig := m.Signal; {
	case sig <= 0 || sig > maxSignal || slices.Contains(neverForwarded, sig):
		return wire.Violation("it passes on signal %d, which no gorun passes on", int(sig))
	case n.kind == wire.PeerUnauthenticated && !job.Ends(sig): // as every node that is lost it ends the job, and no more
		return nil
	case job.Ends(sig) && !h.spec.IsTask():
		name, _ := diagnosis.SignalName(sig)
		n.notify("its gorun got " + name)
	}
	h.post(job.Signalled{Signal: m.Signal, At: time.Now()})
	return nil
}

// maxSignal is the last one of Linux; neverPassed are what no process gets, and what a gorun keeps
// to itself.
const maxSignal = 64

var neverForwarded = []syscall.Signal{
	syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH,
}

func (h *head) forwardSignal(s os.Signal) {
	if s == syscall.SIGWINCH {
		h.resize()
	}
	if sig, ok := s.(syscall.Signal); ok && (!h.engineSignalsRanks() || job.Ends(sig)) {
		h.post(job.Signalled{Signal: sig, At: time.Now()})
	}
}

// obey carries out the supervisor's orders and returns what there is to tell.
func (h *head) execute(orders []job.Order) (remarks []string) {
	for _, o := range orders {
		switch o := o.(type) {
		case job.Note:
			remarks = append(remarks, o.Text)
		case job.Signal:
			h.broadcast(&wire.Signal{Signal: o.Signal, Group: o.Group})
		case job.Kill:
			h.broadcast(&wire.Kill{})
		case job.Cleanup:
			_ = h.nodes[o.Node].link.Send(&wire.Cleanup{Grace: o.Grace}) // of one that is lost its reader knows
		case job.Arm:
			h.arm(o.After, func() { h.timerExpired(o.Timer) })
		case job.Suspend:
			h.running.Store(int32(len(h.nodes)))
			h.broadcast(&wire.Suspend{})
		case job.Resume:
			h.broadcast(&wire.Signal{Signal: syscall.SIGCONT, Group: true})
		}
	}
	return remarks
}

// sendAll tells every node. One that is lost hears nothing, which its reader knows.
func (h *head) broadcast(m wire.Message) {
	for _, n := range h.nodes {
		_ = n.link.Send(m)
	}
}

// armFirst obeys the supervisor's first orders, which are timers: nothing runs
// yet.
func (h *head) armInitial(orders []job.Order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(listenDelay, h.signals.listen)
	h.execute(orders)
}

// listenSoon is for when the ranks run; the end of the job calls it off.
func (h *head) listenOnceRunning() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(listenAfterStart, h.signals.listen)
}

func (h *head) arm(after time.Duration, do func()) {
	h.timers = append(h.timers, time.AfterFunc(after, do))
}

// expired posts that a timer has run out. At the deadline what ranks do may be wanted before they end.
func (h *head) timerExpired(timer job.Timer) {
	at := time.Now() // how ranks end that are asked is nobody's failure
	if timer == job.TimerDeadline && h.spec.StacksAtTimeout {
		h.inspectRanks(0, true, func(found *job.Hang) {
			h.settings.notify("stack traces at the deadline (--get-stack-traces):")
			for _, line := range job.DescribeActivity(found.Ranks) {
				h.settings.notify(line)
			}
			h.post(job.Expired{Timer: timer, At: at})
		})
		return
	}
	h.post(job.Expired{Timer: timer, At: at})
}

func (h *head) stopTimers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.timers {
		t.Stop()
	}
}
