package launcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
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
