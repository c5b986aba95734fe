package ssh

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errTimeout is the cause of a budget's context when its time is up.
var errTimeout = errors.New("out of time")

// budget is a time limit that pauses while the user answers a prompt.
type budget struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	outer  *budget // pauses with it
	jump   *jump   // whose login it limits; nil: a host's

	mu        sync.Mutex
	timer     *time.Timer // nil without a limit
	resumed   time.Time
	left      time.Duration
	suspended int
}

func newBudget(ctx context.Context, limit time.Duration) *budget {
	b := &budget{limit: limit, left: limit, resumed: time.Now()}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	if limit > 0 {
		b.timer = time.AfterFunc(limit, func() { b.cancel(errTimeout) })
	}
	return b
}

// within returns a shorter limit inside this one; 0 adds none.
func (b *budget) within(limit time.Duration) *budget {
	inner := newBudget(b.ctx, limit)
	inner.outer = b
	return inner
}

func (b *budget) stop() {
	b.cancel(nil)
	if b.timer != nil {
		b.timer.Stop()
	}
}

// suspend stops the time until the returned function is called.
func (b *budget) suspend() (resume func()) {
	resumeOuter := func() {}
	if b.outer != nil {
		resumeOuter = b.outer.suspend()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.suspended++; b.suspended == 1 && b.timer != nil {
		b.timer.Stop()
		b.left -= time.Since(b.resumed)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.suspended--; b.suspended == 0 && b.timer != nil {
			b.resumed = time.Now()
			b.timer.Reset(max(b.left, 0))
		}
		resumeOuter()
	}
}

// timedOut reports whether the time of this budget or an outer one is up, and the limit that was exceeded; 0 is the
// caller's deadline.
func (b *budget) timedOut() (limit time.Duration, is bool) {
	if context.Cause(b.ctx) == errTimeout {
		for b.outer != nil && context.Cause(b.outer.ctx) == errTimeout {
			b = b.outer
		}
		return b.limit, true
	}
	return 0, errors.Is(context.Cause(b.ctx), context.DeadlineExceeded)
}

// sleep waits for d. It returns false if the budget ends before.
func (b *budget) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-b.ctx.Done():
		return false
	}
}

// jitter spreads the attempts of many hosts: it returns between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) } // #nosec G404 -- a pause is no secret

func (b *budget) outermost() *budget {
	for b.outer != nil {
		b = b.outer
	}
	return b
}
