package comm

import (
	"context"
	"sync"
	"sync/atomic"

	"gorun/comm/internal/backend"
)

// Work is an asynchronous call. You must not read or change the call's buffers until it is done.
type Work struct {
	ctx  context.Context
	call backend.Call
	done chan struct{}
	err  error
}

// Wait blocks until the call is done and returns its error. You can call it several times, from several goroutines.
func (w *Work) Wait() error {
	<-w.done
	return w.err
}

// Done returns a channel that is closed when the call is done.
func (w *Work) Done() <-chan struct{} { return w.done }

// queue runs a group's asynchronous calls in order. Its goroutine starts with the first call and ends with the group.
type queue struct {
	pending atomic.Int64 // calls that have started and are not done
	mu      sync.Mutex
	works   chan *Work
	stopped bool
	idle    sync.WaitGroup
}

// depth is the number of calls that can wait in the queue. Starting another one blocks.
const depth = 1024

func (q *queue) busy() bool { return q.pending.Load() > 0 }

// start appends the call to the queue.
func (g *Group) start(ctx context.Context, c backend.Call) *Work {
	w := &Work{ctx: ctx, call: c, done: make(chan struct{})}
	q := &g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return finished(errClosed)
	}
	if q.works == nil {
		q.works = make(chan *Work, depth)
		q.idle.Go(func() { g.serve(q.works) })
	}
	q.pending.Add(1)
	q.works <- w
	return w
}

func (g *Group) serve(works <-chan *Work) {
	for w := range works {
		g.mu.Lock()
		if w.call.Kind != 0 {
			w.err = g.run(w.ctx, &w.call)
		}
		g.mu.Unlock()
		w.call = backend.Call{}
		g.queue.pending.Add(-1)
		close(w.done)
	}
}

// over reports whether the group is closed, or is about to be.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// wait blocks until all queued calls are done.
func (g *Group) wait() {
	if g.queue.busy() {
		w := g.start(context.Background(), backend.Call{})
		<-w.done
	}
}

// stop closes the queue and waits for the queued calls.
func (q *queue) stop() {
	q.mu.Lock()
	if q.works != nil && !q.stopped {
		close(q.works)
	}
	q.stopped = true
	q.mu.Unlock()
	q.idle.Wait()
}

// finished returns work that is already done.
func finished(err error) *Work {
	w := &Work{done: make(chan struct{}), err: err}
	close(w.done)
	return w
}

// begin queues a call whose arguments are valid, or returns work that failed with err.
func (g *Group) begin(ctx context.Context, c backend.Call, err error) *Work {
	if g == nil {
		return finished(noGroup(c.Kind.String()))
	}
	if err != nil {
		return finished(err)
	}
	return g.start(ctx, c)
}

// AllReduceAsync starts an [AllReduce] and returns at once.
func AllReduceAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op) *Work {
	var c backend.Call
	err := allReduceCall(&c, send, recv, op)
	return g.begin(ctx, c, err)
}

// ReduceAsync starts a [Reduce] and returns at once.
func ReduceAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op, root int) *Work {
	var c backend.Call
	err := reduceCall(&c, g, send, recv, op, root)
	return g.begin(ctx, c, err)
}

// BroadcastAsync starts a [Broadcast] and returns at once.
func BroadcastAsync[T Number](ctx context.Context, g *Group, buffer []T, root int) *Work {
	var c backend.Call
	err := broadcastCall(&c, g, buffer, root)
	return g.begin(ctx, c, err)
}

// AllGatherAsync starts an [AllGather] and returns at once.
func AllGatherAsync[T Number](ctx context.Context, g *Group, send, recv []T) *Work {
	var c backend.Call
	err := allGatherCall(&c, g, send, recv)
	return g.begin(ctx, c, err)
}

// ReduceScatterAsync starts a [ReduceScatter] and returns at once.
func ReduceScatterAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op) *Work {
	var c backend.Call
	err := reduceScatterCall(&c, g, send, recv, op)
	return g.begin(ctx, c, err)
}

// AllToAllAsync starts an [AllToAll] and returns at once.
func AllToAllAsync[T Number](ctx context.Context, g *Group, send, recv []T) *Work {
	var c backend.Call
	err := allToAllCall(&c, g, send, recv)
	return g.begin(ctx, c, err)
}

// BarrierAsync starts a [Barrier] and returns at once.
func BarrierAsync(ctx context.Context, g *Group) *Work {
	return g.begin(ctx, backend.Call{Kind: backend.Barrier}, nil)
}
