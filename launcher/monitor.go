package launcher

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// monitor shows a job to the user's other processes: it has the job's entry in the registry and
// answers requests. It starts when the job has run for a moment, so that short jobs do not pay for
// it. A nil monitor does nothing.
type monitor struct {
	call          *call
	began         time.Time
	stopRequested chan stopRequest
	followers     followers

	id     string               // set before head is
	head   atomic.Pointer[head] // of the current attempt
	paused atomic.Bool          // between two attempts
	ended  atomic.Bool          // by gorun stop

	mu    sync.Mutex // guards what follows
	entry *registry.Entry
	tried bool
	guard *process.Guard // if no agent in this process has one
	clock *progressClock
	seen  progressSeen
}

// stopRequest is a request to end the job.
type stopRequest struct {
	signal syscall.Signal
	grace  *time.Duration // nil: the job's own
}

// maxStopRequests limits pending requests.
const maxStopRequests = 8

func newMonitor(c *call) *monitor {
	if len(c.settings.Registry) == 0 && c.settings.Metrics == "" {
		return nil
	}
	return &monitor{
		call: c, began: time.Now(), stopRequested: make(chan stopRequest, maxStopRequests),
		tried: len(c.settings.Registry) == 0,
	}
}

// attach is called when an attempt begins.
func (l *monitor) attach(h *head) {
	if l == nil {
		return
	}
	if l.head.Load() == nil {
		l.id = registry.ID(h.plan.Load().JobID)
	}
	l.head.Store(h)
	l.followers.each((*follower).startAttempt)
	if !slices.ContainsFunc(h.nodes, func(n *node) bool { return n.served != nil }) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.arm(registerDelay, l.registerAlone)
	}
}

// registerDelay is how long a job runs before it is listed if no agent in this process decides
// that.
const registerDelay = 50 * time.Millisecond

// setClock has metrics show the goodput.
func (l *monitor) setClock(p *progressClock) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.clock = p
	}
}

func (l *monitor) setPaused(on bool) {
	if l != nil {
		l.paused.Store(on)
	}
}

// isStopped reports whether gorun stop has ended the job.
func (l *monitor) isStopped() bool { return l != nil && l.ended.Load() }

func (l *monitor) stopRequests() <-chan stopRequest {
	if l == nil {
		return nil
	}
	return l.stopRequested
}

// tap returns the console's tap.
func (l *monitor) tap() func(rank, stream int, p []byte) {
	if l == nil {
		return nil
	}
	return l.followers.write
}

// agentSettled is called by an agent in this process once its ranks have run for a moment. The
// agent's guard removes the entry if this process is killed.
func (l *monitor) agentSettled(guarded func(path string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entry != nil: // from an earlier attempt
		guarded(l.entry.Path())
	case !l.tried:
		l.register(guarded)
	}
}

// registerAlone lists a job without ranks on this host, and therefore without a guard here.
func (l *monitor) registerAlone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tried {
		return
	}
	guarded := func(string) {}
	guard := new(process.Guard)
	if err := guard.Start(process.GuardConfig{Executable: l.call.settings.Executable}); err == nil {
		l.guard, guarded = guard, guard.AddPath // else the next client removes a stale entry
	}
	l.register(guarded)
}

// register makes the entry. The lock must be held.
func (l *monitor) register(guarded func(path string)) {
	l.tried = true
	entry, err := registry.Register(l.call.settings.Registry, l.id, guarded, l.answer)
	if err != nil {
		l.call.settings.detail(fmt.Sprintf("gorun ps cannot list this job: %v", err))
		return
	}
	l.entry = entry
}

// close removes the entry; clients that wait for the end of the job learn of it.
func (l *monitor) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.tried = true
	entry, guard := l.entry, l.guard
	l.mu.Unlock()
	if entry != nil {
		entry.Close()
	}
	if guard != nil {
		guard.Dismiss()
	}
}

// answer answers a request of this user. A new kind of request has a case here, a name in package
// registry, and an option of gorun ps or a command in cmd/gorun that sends it.
func (l *monitor) answer(ctx context.Context, q registry.Request, send func(part any) error) {
	h := l.head.Load() // set before the entry is registered
	switch q.Kind {
	case registry.JobRequest:
		_ = send(l.describe(h)) // the client may be gone
	case registry.RanksRequest:
		ranks, _ := l.describeRanks(ctx, h, queryUsage)
		_ = send(ranks)
	case registry.StopRequest:
		l.stop(ctx, q, send)
	case registry.StacksRequest:
		_ = send(l.stacks(ctx, h, q))
	case registry.NCCLRequest:
		_ = send(l.nccl(ctx, h))
	case registry.EvidenceRequest:
		c := collection{h, func(f registry.File) { _ = send(f) }} // the client may be gone
		c.all(ctx)
		c.add(registry.File{})
	case registry.LogsRequest:
		l.logs(ctx, h, q, send)
	default:
		_ = send(registry.Reply{Error: fmt.Sprintf("this gorun does not support the request %q", q.Kind)})
	}
}

// stop ends the job and makes the client wait for its end.
func (l *monitor) stop(ctx context.Context, q registry.Request, send func(part any) error) {
	request := stopRequest{q.Signal, q.Grace}
	if request.signal == 0 {
		request.signal = syscall.SIGTERM
	}
	if !job.Ends(request.signal) {
		_ = send(registry.Reply{Error: fmt.Sprintf("signal %d does not stop a job gracefully", q.Signal)})
		return
	}
	l.ended.Store(true)
	select {
	case l.stopRequested <- request:
	default: // enough are pending
	}
	if send(registry.Reply{Whole: l.call.settings.WholeProcess}) == nil {
		<-ctx.Done()
	}
}

func (h *head) onStopRequest(w stopRequest) {
	h.settings.notify("gorun stop requested the end of the job")
	h.post(job.Signalled{Signal: w.signal, Grace: w.grace, At: time.Now()})
}

// stacks describes what ranks do right now.
func (l *monitor) stacks(ctx context.Context, h *head, q registry.Request) registry.Reply {
	answers, silent := h.queries.run(ctx, h, queryStacks)
	var ranks []spec.Activity
	for _, u := range h.usages(answers) {
		if q.Rank == nil || *q.Rank == u.Rank {
			ranks = append(ranks, u.Activity)
		}
	}
	w := registry.Reply{Lines: job.DescribeActivity(ranks)}
	if hint := job.StackHint(ranks); hint != "" {
		w.Lines = append(w.Lines, "hint: "+hint)
	}
	for _, host := range silent {
		w.Lines = append(w.Lines, "host "+host+" did not report in time what its ranks do")
	}
	if len(w.Lines) == 0 {
		w.Error = "no rank is running"
		if q.Rank != nil {
			w.Error = fmt.Sprintf("rank %d is not running", *q.Rank)
		}
	}
	return w
}

// onUsed receives a node's answer to a query.
func (h *head) onUsed(n *node, m wire.Used) error {
	h.queries.receive(n, m)
	return nil
}
