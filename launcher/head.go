package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// How much of each output stream may be under way between the pipes of a node's ranks
// and our own standard output, in bytes.
const (
	maxWindow = 1 << 20  // of one node
	allWindow = 16 << 20 // of all, as long as minWindow is left to each
	minWindow = 32 << 10
)

// head drives one job: it carries events to the supervisor and its orders to the
// nodes.
type head struct {
	settings *settings
	nodes    []*node
	plan     atomic.Pointer[job.Plan] // it grows when ranks spawn others
	start    func(*node) *wire.Start
	stdio    wire.Stdio
	output   job.OutputWish
	sup      *job.Supervisor
	console  *output.Console
	credits  []credit  // by node
	logs     *headLogs // nil: nodes write their own
	stdin    *stdinPump
	exchange *exchangeHub
	nccl     ncclVoice
	engine   *engineAgents // nil: no resource manager started the agents
	signals  chan os.Signal
	hold     func() // keeps signals until listen, once
	listen   func() // subscribes to signals, once

	stall  atomic.Pointer[job.Stall]
	hang   atomic.Pointer[job.Hang]
	onHang job.OnHang
	// ownRanks: each process of the job shows what its own ranks print, this one, too.
	ownRanks bool
	// engineSignals: ranks hear by themselves of signals that come to this process.
	engineSignals bool
	// hangTimeout is watched here where the job has several nodes: one of them may be
	// quiet while another is not.
	hangTimeout time.Duration
	inspected   chan inspected
	endings     endings
	listing     *listing // nil: the job is in no registry

	running atomic.Int32 // nodes whose ranks are not stopped yet, while it is waited for that

	// moreRanks plans what a rank asks for by MPI_Comm_spawn.
	moreRanks func(p *job.Plan, wish job.SpawnWish, number int) (*job.Plan, *job.Spawned, error)
	growths   growths

	mu     sync.Mutex // guards sup, timers and growths
	timers []*time.Timer
	over   chan struct{} // closed when the supervisor is done
}

// run starts the plan's ranks and returns when nothing of the job is left.
func (h *head) run(ctx context.Context) (job.Result, error) {
	supervision := h.plan.Load().Supervision()
	supervision.Began, supervision.SignalName = time.Now(), diagnosis.SignalName
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
	h.nccl.listen(h)
	h.settings.console = h.console
	h.listing.runs(h)
	h.hold()
	h.stdin = h.newStdinPump()
	for _, n := range h.nodes {
		if err := h.begin(n); err != nil {
			return job.Result{}, err
		}
	}
	h.openGrowths()
	h.stdin.begin() // nodes hear of their ranks before they hear of input
	h.armFirst(orders)
	if h.hangTimeout > 0 && len(h.nodes) > 1 {
		go h.watchHang()
	}
	for _, n := range h.nodes {
		go h.receive(n)
	}
	if h.engine != nil {
		defer h.engine.tellTo(h)()
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
	h.nccl.end()
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
const impatience = time.Second

// closeConsole waits until everything is written, which a reader (a pager, a
// stopped terminal) may hold up as long as nobody wants the job to end.
func (h *head) closeConsole(ctx context.Context) {
	closing, cancel := context.WithCancel(ctx)
	defer cancel()
	if cause := h.sup.Result().Cause; cause == job.CauseSignal || cause == job.CauseCancelled || cause == job.CauseTimeout {
		closing, cancel = context.WithTimeout(context.WithoutCancel(ctx), impatience)
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
		case sig := <-h.signals:
			if sig, ok := sig.(syscall.Signal); ok && job.Ends(sig) {
				cancel()
			}
		case <-h.listing.stopping():
			cancel()
		}
	}
}

// post shows the supervisor an event and carries out its orders, on the
// goroutine to which the event came: handing each to another would cost a change
// of threads.
func (h *head) post(ev job.Event) {
	for _, remark := range h.next(ev) {
		h.settings.tell(remark) // without the lock: the console may be posting, too
	}
}

func (h *head) next(ev job.Event) (remarks []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sup.Done() {
		return nil
	}
	remarks = h.obey(h.sup.Next(ev))
	if h.sup.Done() {
		close(h.over)
	}
	return remarks
}

// loop passes on what comes from outside until nothing is left on any node.
func (h *head) loop(ctx context.Context) {
	cancelled := ctx.Done()
	for {
		select {
		case <-h.over:
			return
		case sig := <-h.signals:
			h.signalled(sig)
		case w := <-h.listing.stopping():
			h.stopped(w)
		case <-cancelled:
			cancelled = nil
			h.post(job.Cancelled{At: time.Now()})
		}
	}
}

// begin has a node start its ranks. What it says from now on is the job's.
func (h *head) begin(n *node) error {
	if !n.isDirect() {
		hear := func(f wire.Frame) error { return h.frame(n, f) }
		n.hear.Store(&hear)
	}
	if err := n.link.Send(h.start(n)); err != nil {
		return err
	}
	h.exchange.begin(n)
	return nil
}

// receive hears of the end of a node's link and, where nobody does so yet, reads its
// frames.
func (h *head) receive(n *node) {
	var err error
	if n.isDirect() {
		err = h.read(n)
	} else {
		select {
		case <-n.lost:
			err = n.err
		case <-h.over:
		}
	}
	if err != nil {
		h.post(job.NodeLost{Node: n.number, Text: h.lost(n, err), At: time.Now()})
		h.exchange.nodeLost(n) // ranks of others, which fail by that, were asked to end before
	}
}

func (h *head) lost(n *node, err error) string {
	if n.isDirect() {
		return fmt.Sprintf("the agent is gone: %v", err)
	}
	return n.name + " is lost: " + n.why(err)
}

// read passes on the frames of the only node until its part of the job is over.
func (h *head) read(n *node) error {
	for {
		f, err := n.link.Read()
		if err == nil {
			err = h.frame(n, f)
		}
		if err != nil {
			return err
		}
		select {
		case <-h.over: // what comes after Gone is not this attempt's
			return nil
		default:
		}
	}
}

// frame takes what a node says: output goes to the console, all else to the
// supervisor.
func (h *head) frame(n *node, f wire.Frame) error {
	switch f.Type {
	case wire.TypeOutput:
		h.listen()
		rank, stream, p, err := f.Stream()
		if err == nil {
			err = h.print(n, rank, stream, p)
		}
		return err
	case wire.TypeNotice:
		return decode(f, func(m wire.Notice) { n.tell(m.Text) })
	case wire.TypeCredit:
		return decode(f, func(c wire.Credit) { h.stdin.credit(c.Bytes) })
	case wire.TypeRunning:
		h.listenSoon()
		return decode(f, func(r wire.Running) { h.post(running(n, r)) })
	case wire.TypeStartFailed:
		return decode(f, func(s wire.StartFailed) { h.post(h.startFailed(n, s)) })
	case wire.TypeEnded:
		return decode(f, func(e wire.Ended) { h.endings.pass(func() { h.ended(n, e) }) })
	case wire.TypeSpawn:
		return decode(f, func(m wire.Spawn) { h.spawn(n, m) })
	case wire.TypeGrown:
		return decode(f, func(m wire.Grown) { h.grown(n, m) })
	case wire.TypeExchange:
		return decode(f, func(m wire.Exchange) { h.exchange.receive(n, &m) })
	case wire.TypeSuspend:
		return h.suspended()
	case wire.TypeSignal: // it came to a node that joined
		return decode(f, func(m wire.Signal) { h.post(job.Signalled{Signal: m.Signal, At: time.Now()}) })
	case wire.TypeSignalled:
		return decode(f, func(m wire.Signalled) { h.engine.signalled(n, m) })
	case wire.TypeOutputLost:
		return decode(f, func(m wire.OutputLost) { h.outputLost(n, m) })
	case wire.TypeHung:
		return decode(f, func(m wire.Hung) { h.hung(n, m) })
	case wire.TypeStalled:
		return decode(f, func(m wire.Stalled) { h.stalled(n, m) })
	case wire.TypeUsed:
		return decode(f, func(m wire.Used) { h.used(n, m) })
	case wire.TypeMPI:
		return decode(f, func(m wire.MPIEvent) { h.mpiEvent(n, m) })
	case wire.TypeGone:
		n.hear.Store(nil)
		return decode(f, func(g wire.Gone) { h.gone(n, g) })
	}
	return nil // a later version's
}

// gone: others may be about to wait in MPI for the node's ranks.
func (h *head) gone(n *node, g wire.Gone) {
	h.exchange.nodeGone(n, h.plan.Load().ProcsOf(n.number))
	h.post(job.Gone{Node: n.number, Left: h.leftOn(n, g.Left)})
}

// print shows what a rank wrote, if it is one of the node's.
func (h *head) print(n *node, rank, stream int, p []byte) error {
	if !h.has(n, rank) {
		return fmt.Errorf("output of rank %d, which is none of the node's", rank)
	}
	if h.logs == nil || h.logs.write(n, rank, stream, p) {
		h.console.Write(rank, stream, p)
	}
	h.nccl.heard(n, rank, stream, p)
	return nil
}

// has reports whether a rank is one of the node's.
func (h *head) has(n *node, rank int) bool {
	return rank >= 0 && rank < len(h.plan.Load().Ranks) && h.plan.Load().Ranks[rank].Node == n.number
}

func (h *head) startFailed(n *node, s wire.StartFailed) job.StartFailed {
	text := printable.Text(s.Text)
	if len(h.nodes) > 1 {
		text = n.name + ": " + text
	}
	return job.StartFailed{Node: n.number, Rank: s.Rank, Code: s.Code, Text: text, Hint: printable.Text(s.Hint), At: n.clock.ours(s.At)}
}

// leftOn says on which node processes are left, where there are several.
func (h *head) leftOn(n *node, left []string) []string {
	for i, text := range left {
		if left[i] = printable.Text(text); len(h.nodes) > 1 {
			left[i] = n.name + ": " + left[i]
		}
	}
	return left
}

// suspended: when the ranks of all nodes are stopped this process stops, too, as
// Ctrl-Z does to a program; SIGCONT comes back as a signal.
func (h *head) suspended() error {
	if h.running.Add(-1) > 0 {
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
}

func decode[T any, M wire.PointerTo[T]](f wire.Frame, use func(T)) error {
	var body T
	if err := f.Decode(M(&body)); err != nil {
		return err
	}
	use(body)
	return nil
}

func printables(texts []string) []string {
	for i, t := range texts {
		texts[i] = printable.Text(t)
	}
	return texts
}

func running(n *node, r wire.Running) job.Running {
	ev := job.Running{Node: n.number, PIDs: make(map[int]int, len(r.Ranks)), At: n.clock.ours(r.At)}
	for _, rank := range r.Ranks {
		ev.PIDs[rank.Rank] = rank.PID
	}
	return ev
}

func (h *head) ended(n *node, e wire.Ended) {
	for _, s := range e.Streams {
		h.endStream(n, s)
	}
	for _, r := range e.Ranks {
		if !h.has(n, r.Rank) {
			continue
		}
		h.post(job.Exited{
			Rank: r.Rank, PID: r.PID, Code: r.Code, Signal: r.Signal, Core: r.Core,
			PeerLost: r.Code != 0 && diagnosis.PeerLost(h.lastLines(r.Rank, r.Last)), At: n.clock.ours(r.At), RaisedAt: n.clock.ours(r.RaisedAt), AskedAt: n.clock.ours(r.AskedAt),
			ErrorFile: r.ErrorFile, OOM: printable.Text(r.OOM), Last: r.Last, Hint: printable.Text(r.Hint), MPI: rankMPI(r.MPI),
		})
	}
}

func (h *head) endStream(n *node, s wire.StreamEnd) {
	if !h.has(n, s.Rank) || s.Stream != output.Stdout && s.Stream != output.Stderr {
		return
	}
	h.console.End(s.Rank, s.Stream)
	if h.logs != nil {
		h.logs.end(n, s.Rank, s.Stream)
	}
}

func (h *head) signalled(s os.Signal) {
	if s == syscall.SIGWINCH {
		h.resize()
	}
	if sig, ok := s.(syscall.Signal); ok && (!h.engineSignals || job.Ends(sig)) {
		h.post(job.Signalled{Signal: sig, At: time.Now()})
	}
}

// obey carries out the supervisor's orders and returns what there is to tell.
func (h *head) obey(orders []job.Order) (remarks []string) {
	for _, o := range orders {
		if r, ok := o.(job.Remark); ok {
			remarks = append(remarks, r.Text)
		} else if err := h.carryOut(o); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			remarks = append(remarks, fmt.Sprintf("%T: %v", o, err))
		}
	}
	return remarks
}

func (h *head) carryOut(o job.Order) error {
	switch o := o.(type) {
	case job.Signal:
		return h.sendAll(&wire.Signal{Signal: o.Signal, Group: o.Group})
	case job.Kill:
		return h.sendAll(&wire.Kill{})
	case job.End:
		return h.nodes[o.Node].link.Send(&wire.End{Grace: o.Grace})
	case job.Arm:
		h.arm(o.After, func() { h.post(job.Expired{Timer: o.Timer, At: time.Now()}) })
	case job.Suspend:
		h.running.Store(int32(len(h.nodes)))
		return h.sendAll(&wire.Suspend{})
	case job.Resume:
		return h.sendAll(&wire.Signal{Signal: syscall.SIGCONT, Group: true})
	}
	return nil
}

// sendAll tells every node. One that is lost hears nothing, which its reader knows.
func (h *head) sendAll(m wire.Message) error {
	if len(h.nodes) == 1 {
		return h.nodes[0].link.Send(m)
	}
	for _, n := range h.nodes {
		_ = n.link.Send(m)
	}
	return nil
}

// armFirst obeys the supervisor's first orders, which are timers: nothing runs
// yet.
func (h *head) armFirst(orders []job.Order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(listenDelay, h.listen)
	h.obey(orders)
}

// listenSoon is for when the ranks run; the end of the job calls it off.
func (h *head) listenSoon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(listenAfterStart, h.listen)
}

func (h *head) arm(after time.Duration, do func()) {
	h.timers = append(h.timers, time.AfterFunc(after, do))
}

func (h *head) stopTimers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.timers {
		t.Stop()
	}
}
