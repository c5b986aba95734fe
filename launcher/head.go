package launcher

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

// head drives one attempt of a job: it passes events to the supervisor and executes its orders. Its
// fields are set before the ranks start; those that change later guard themselves.
type head struct {
	*call
	nodes []*node // by their number in the plan
	// members are all nodes of the job, with those that have no ranks or came meanwhile.
	members atomic.Pointer[[]*node]
	// left are those that have left it, in generation changes.
	left       []*node
	generation int
	key        []byte // see decision
	began      time.Time
	stdio      wire.Stdio
	plan       atomic.Pointer[job.Plan] // spawned ranks extend it

	exchange  *exchangeHub
	planSpawn func(p *job.Plan, request job.SpawnRequest, number int) (*job.Plan, *job.Spawned, error)

	streams
	stalls
	supervision
	evidence evidence

	startSent       chan struct{} // closed when all nodes have been sent Start: they can receive from other nodes' ranks
	over            chan struct{} // closed when the supervisor is done
	nodesStarted    atomic.Int32  // nodes that have reported their ranks
	timeLeftQueried atomic.Bool
	nodesToStop     atomic.Int32 // nodes whose ranks are still to be suspended
}

// streams are the ranks' standard streams.
type streams struct {
	console *output.Console
	credits []outputCredit // by node
	logs    *headLogs      // nil: nodes write log files
	stdin   *stdinPump
	nccl    ncclObserver
}

// stalls is what is known of ranks that make no progress.
type stalls struct {
	stall      atomic.Pointer[job.Stall]
	hang       atomic.Pointer[job.Hang]
	watch      *job.HangWatch // nil: nobody watches; its checks follow each other
	sighted    sighting       // of the last check
	verdict    string         // on ranks' stacks, for checks
	nextCheck  *time.Timer    // guarded by supervision.mu
	inspecting sync.Mutex     // held by inspectRanks
	ras        [][]byte       // answers of NCCL to it
	inspected  chan answer[wire.Hung]
	exits      exitGate
}

// supervision is the supervisor and what it must be consistent with.
type supervision struct {
	mu           sync.Mutex // guards all of these
	sup          *job.Supervisor
	started      time.Time // when the last node reported its ranks
	timers       []*time.Timer
	armed        [job.TimerEngine + 1]*time.Timer // the latest of each kind
	reportedEnds map[[2]int]bool                  // by rank and stream, 0 for the rank itself
	spawns       spawns
}

func newHead(c *call, p *job.Plan, nodes []*node, key []byte) *head {
	h := &head{
		call: c, nodes: nodes, key: key, startSent: make(chan struct{}), over: make(chan struct{}),
		streams: streams{credits: make([]outputCredit, len(nodes))},
		stalls:  stalls{inspected: make(chan answer[wire.Hung], len(nodes))},
	}
	h.plan.Store(p)
	h.members.Store(&nodes)
	h.stdio = h.newStdio(p)
	h.planSpawn = h.planAuthorizedSpawn
	h.exchange = newExchangeHub(p.Attempt, nodes, h.hasProc)
	for i, n := range nodes {
		h.credits[i].link, h.credits[i].window = n.link, h.window()
		h.credits[i].addRanks(len(p.Nodes[i].Ranks))
	}
	return h
}

// run runs the attempt and returns when nothing of it is left.
func (h *head) run(ctx context.Context) (job.Result, error) {
	supervision := h.plan.Load().Supervision()
	h.began = time.Now()
	supervision.StartedAt, supervision.SignalName = h.began, diagnosis.SignalName
	if h.engine != nil {
		supervision.Engine = h.engine.title
	}
	sup, orders := job.NewSupervisor(supervision)
	h.sup = sup
	var err error
	if h.logs, err = h.openHeadLogs(); err != nil {
		return job.Result{}, err
	}
	h.console = output.NewConsole(h.consoleConfig())
	h.nccl.init(h)
	h.settings.console.Store(h.console)
	h.monitor.attach(h)
	h.settings.emit(record.Event{Event: record.AttemptBegan, At: h.began, Attempt: h.plan.Load().Attempt})
	h.signals.hold()
	h.stdin = h.newStdinPump()
	if err := h.startRanks(); err != nil {
		return job.Result{}, err
	}
	h.stdin.start() // nodes need their ranks before input
	h.armInitial(orders)
	h.watchHang()
	for _, n := range h.nodes {
		go h.watchLink(n)
	}
	h.loop(ctx)
	h.finish(ctx)
	h.reportLastLines()
	h.awaitEvidence()
	return h.result(), nil
}

// finish writes all pending output.
func (h *head) finish(ctx context.Context) {
	h.stopTimers()
	h.exchange.close()
	h.stdin.stop()
	h.nccl.report()                                             // some ranks may never connect
	if r := h.sup.Result(); r.ExitCode != 0 || r.First != nil { // a report follows
		h.console.EndStderr()
	}
	if h.logs != nil { // first, as the console shows its errors
		h.logs.close(context.WithoutCancel(ctx))
	}
	h.closeConsole(ctx)
}

// post gives the supervisor an event and executes its orders on the calling goroutine: a handover
// would cost a thread switch per event.
func (h *head) post(ev job.Event) {
	h.emitEvent(ev)
	for _, note := range h.step(ev) {
		h.settings.notify(note) // without the lock: the console may be posting
	}
}

// step returns the notes to print, without the lock: the console may be posting.
func (h *head) step(ev job.Event) (notes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sup.Done() {
		if lost, ok := ev.(job.OutputLost); ok && !lost.ReaderGone { // the last output is written after the end
			h.sup.Next(lost)
		}
		return nil
	}
	notes = h.execute(h.sup.Next(ev))
	if h.sup.Done() {
		close(h.over)
	}
	return notes
}

// loop posts signals, stop requests, cancellation and the engine's end until the job is over.
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
			if h.spec.Grace == 0 {
				h.timeLeftQueried.Store(false) // a notice had left more time
				h.queryTimeLeft()
			}
		}
	}
}

// startRanks tells all nodes to start their ranks. Their frames go to handleFrame from now on.
func (h *head) startRanks() error {
	defer close(h.startSent)
	worlds := wire.EncodeWorlds(h.plan.Load().Worlds) // encode once for all nodes
	for _, n := range h.nodes {
		handler := func(f wire.Frame) error { return h.handleFrame(n, f) }
		n.handler.Store(&handler)
		n.notices.Store(0)
		err := n.link.Send(h.startMessage(n, worlds))
		if err != nil && !errors.Is(err, io.ErrClosedPipe) { // watchLink posts a loss
			return err
		}
	}
	return nil
}

// watchLink posts the loss of a node.
func (h *head) watchLink(n *node) {
	select {
	case <-n.lost:
		h.collectFailure()
		h.post(job.NodeLost{Node: n.number, Text: n.name + " is lost: " + n.lossText(n.err), At: time.Now()})
		h.exchange.NodeLost(n.number) // last: other ranks fail by that, and must not be taken for the cause
	case <-h.over:
	}
}
