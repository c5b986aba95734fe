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

// listing is what the user's other processes see of a job: its entry in the registry, and
// the answers to what they ask. It begins when the job has run for a moment, and costs it
// nothing before; nil: the job is in no registry.
type monitor struct {
	call          *call
	began         time.Time
	stopRequested chan stopRequest
	followers     followers
	queries       queries

	id     string               // set before head is
	head   atomic.Pointer[head] // of the last attempt that began
	paused atomic.Bool          // between two attempts

	mu    sync.Mutex // guards what follows
	entry *registry.Entry
	tried bool
	guard *process.Guard // where no agent in this process has one
}

// stopWish is what somebody who wants the job to end said.
type stopRequest struct {
	signal syscall.Signal
	grace  *time.Duration // nil: the job's own
}

// stopsAhead is how many such wishes may wait.
const maxStopRequests = 8

func newMonitor(c *call) *monitor {
	if len(c.settings.registry) == 0 {
		return nil
	}
	return &monitor{call: c, began: time.Now(), stopRequested: make(chan stopRequest, maxStopRequests)}
}

// runs says that an attempt has begun.
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

// listedAfter is how long a job runs before it is listed, where no agent of this process
// says when.
const registerDelay = 50 * time.Millisecond

// pause says that the job runs, or that it will run again later.
func (l *monitor) setPaused(on bool) {
	if l != nil {
		l.paused.Store(on)
	}
}

// stopping is where wishes to stop the job come.
func (l *monitor) stopRequests() <-chan stopRequest {
	if l == nil {
		return nil
	}
	return l.stopRequested
}

// tapping is what the console hands to those who follow.
func (l *monitor) tap() func(rank, stream int, p []byte) {
	if l == nil {
		return nil
	}
	return l.followers.write
}

// settled is called by an agent of this process once its ranks have run for a moment:
// the guard that it has removes the entry should this process be killed.
func (l *monitor) agentSettled(guarded func(path string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entry != nil: // of the first attempt
		guarded(l.entry.Path())
	case !l.tried:
		l.register(guarded)
	}
}

// beginAlone is for a job without ranks on this host, which has no guard here.
func (l *monitor) registerAlone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tried {
		return
	}
	guarded := func(string) {}
	guard := new(process.Guard)
	if err := guard.Start(process.GuardConfig{Executable: l.call.settings.executable}); err == nil {
		l.guard, guarded = guard, guard.AddPath // without it the entry is removed by the next who looks
	}
	l.register(guarded)
}

// register makes the entry. The lock is held.
func (l *monitor) register(guarded func(path string)) {
	l.tried = true
	entry, err := registry.Register(l.call.settings.registry, l.id, guarded, l.answer)
	if err != nil {
		l.call.settings.detail(fmt.Sprintf("gorun ps cannot list this job: %v", err))
		return
	}
	l.entry = entry
}

// close ends the entry; those who wait for the end of the job hear of it.
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

// answer answers somebody of this user. Whoever adds a question has a case here, its name in
// registry/words.go, and an option of gorun ps or a command in cmd/gorun/jobs.go that asks it.
func (l *monitor) answer(ctx context.Context, q registry.Request, send func(part any) error) {
	h := l.head.Load() // there is one: nobody is answered before
	switch q.Kind {
	case registry.JobRequest:
		_ = send(l.describe(h)) // he who asked has gone
	case registry.RanksRequest:
		_ = send(l.describeRanks(ctx, h))
	case registry.StopRequest:
		l.stop(ctx, q, send)
	case registry.StacksRequest:
		_ = send(l.stacks(ctx, h, q))
	case registry.NCCLRequest:
		_ = send(l.nccl(ctx, h))
	case registry.LogsRequest:
		l.logs(ctx, h, q, send)
	default:
		_ = send(registry.Reply{Error: fmt.Sprintf("this gorun does not know the question %q", q.Kind)})
	}
}

// stop has the job end in order, and keeps who asked waiting until it has.
func (l *monitor) stop(ctx context.Context, q registry.Request, send func(part any) error) {
	wish := stopRequest{q.Signal, q.Grace}
	if wish.signal == 0 {
		wish.signal = syscall.SIGTERM
	}
	if !job.Ends(wish.signal) {
		_ = send(registry.Reply{Error: fmt.Sprintf("signal %d does not end a job in order", q.Signal)})
		return
	}
	select {
	case l.stopRequested <- wish:
	default: // as many have asked
	}
	if send(registry.Reply{Whole: l.call.settings.wholeProcess}) == nil {
		<-ctx.Done()
	}
}

// stopped passes a wish to end on to the supervisor.
func (h *head) onStopRequest(w stopRequest) {
	h.settings.notify("gorun stop asks for the end of the job")
	h.post(job.Signalled{Signal: w.signal, Grace: w.grace, At: time.Now()})
}

// stacks says what ranks do right now.
func (l *monitor) stacks(ctx context.Context, h *head, q registry.Request) registry.Reply {
	answers, silent := l.queries.run(ctx, h, queryStacks)
	var ranks []spec.Activity
	for _, u := range h.usages(answers) {
		if q.Rank == nil || *q.Rank == u.Rank {
			ranks = append(ranks, u.Activity)
		}
	}
	w := registry.Reply{Lines: job.DescribeActivity(ranks)}
	for _, host := range silent {
		w.Lines = append(w.Lines, "host "+host+" did not say in time what its ranks do")
	}
	if len(w.Lines) == 0 {
		w.Error = "no rank of the job runs"
		if q.Rank != nil {
			w.Error = fmt.Sprintf("the job has no rank %d that runs", *q.Rank)
		}
	}
	return w
}

// used is an answer of a node to what somebody asked.
func (h *head) onUsed(n *node, m wire.Used) error {
	if h.monitor != nil {
		h.monitor.queries.receive(n, m)
	}
	return nil
}
