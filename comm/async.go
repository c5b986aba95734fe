package comm

import (
	"context"
	"sync"
	"sync/atomic"

	"gorun/comm/internal/backend"
)

// Work is a call that was begun and not waited for. Its buffers belong to it until it is done.
type Work struct {
	ctx  context.Context
	call backend.Call
	done chan struct{}
	err  error
}

// Wait blocks until the call is done and returns its error. It may be called again, and by several goroutines.
func (w *Work) Wait() error {
	<-w.done
	return w.err
}

// Done is closed when the call is done.
func (w *Work) Done() <-chan struct{} { return w.done }

// queue holds a group's work in the order in which it was begun. One goroutine does it; it comes with the first and
// ends with the group.
type queue struct {
	pending atomic.Int64 // begun and not done
	mu      sync.Mutex
	works   chan *Work
	stopped bool
	idle    sync.WaitGroup
}

// depth is how many calls can wait in the queue before starting another one blocks.
const depth = 1024

func (q *queue) busy() bool { return q.pending.Load() > 0 }

// start begins the call behind all that were begun before.
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

// wait returns when what was begun until now is done.
func (g *Group) wait() {
	if g.queue.busy() {
		w := g.start(context.Background(), backend.Call{})
		<-w.done
	}
}

// stop lets what was begun end.
func (q *queue) stop() {
	q.mu.Lock()
	if q.works != nil && !q.stopped {
		close(q.works)
	}
	q.stopped = true
	q.mu.Unlock()
	q.idle.Wait()
}

// finished is work that ended before it began.
func finished(err error) *Work {
	w := &Work{done: make(chan struct{}), err: err}
	close(w.done)
	return w
}

// begin starts a call whose arguments were checked.
func (g *Group) begin(ctx context.Context, c backend.Call, err error) *Work {
	if g == nil {
		return finished(noGroup(c.Kind.String()))
	}
	if err != nil {
		return finished(err)
	}
	return g.start(ctx, c)
}

// AllReduceAsync begins an [AllReduce].
func AllReduceAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op) *Work {
	var c backend.Call
	err := allReduceCall(&c, send, recv, op)
	return g.begin(ctx, c, err)
}

// ReduceAsync begins a [Reduce].
func ReduceAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op, root int) *Work {
	var c backend.Call
	err := reduceCall(&c, g, send, recv, op, root)
	return g.begin(ctx, c, err)
}

// BroadcastAsync begins a [Broadcast].
func BroadcastAsync[T Number](ctx context.Context, g *Group, buffer []T, root int) *Work {
	var c backend.Call
	err := broadcastCall(&c, g, buffer, root)
	return g.begin(ctx, c, err)
}

// AllGatherAsync begins an [AllGather].
func AllGatherAsync[T Number](ctx context.Context, g *Group, send, recv []T) *Work {
	var c backend.Call
	err := allGatherCall(&c, g, send, recv)
	return g.begin(ctx, c, err)
}

// ReduceScatterAsync begins a [ReduceScatter].
func ReduceScatterAsync[T Number](ctx context.Context, g *Group, send, recv []T, op Op) *Work {
	var c backend.Call
	err := reduceScatterCall(&c, g, send, recv, op)
	return g.begin(ctx, c, err)
}

// AllToAllAsync begins an [AllToAll].
func AllToAllAsync[T Number](ctx context.Context, g *Group, send, recv []T) *Work {
	var c backend.Call
	err := allToAllCall(&c, g, send, recv)
	return g.begin(ctx, c, err)
}

// BarrierAsync begins a [Barrier].
func BarrierAsync(ctx context.Context, g *Group) *Work {
	return g.begin(ctx, backend.Call{Kind: backend.Barrier}, nil)
}
