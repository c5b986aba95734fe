package ssh

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errLate is why the context of a clock ended.
var errLate = errors.New("out of time")

// clock is a limit that stands still while a person is being asked.
type clock struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	outer  *clock   // stands still too
	above  []string // of a jump host's: those that wait for it, by their keys

	mu      sync.Mutex
	timer   *time.Timer // nil without a limit
	since   time.Time
	left    time.Duration
	waiting int
}

func newClock(ctx context.Context, limit time.Duration) *clock {
	k := &clock{limit: limit, left: limit, since: time.Now()}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	if limit > 0 {
		k.timer = time.AfterFunc(limit, func() { k.cancel(errLate) })
	}
	return k
}

// within is a shorter limit inside this one; 0 is none of its own.
func (k *clock) within(limit time.Duration) *clock {
	inner := newClock(k.ctx, limit)
	inner.outer = k
	return inner
}

func (k *clock) stop() {
	k.cancel(nil)
	if k.timer != nil {
		k.timer.Stop()
	}
}

// hold stops the clock until the function that it returns is called.
func (k *clock) hold() (resume func()) {
	outer := func() {}
	if k.outer != nil {
		outer = k.outer.hold()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting++; k.waiting == 1 && k.timer != nil {
		k.timer.Stop()
		k.left -= time.Since(k.since)
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.waiting--; k.waiting == 0 && k.timer != nil {
			k.since = time.Now()
			k.timer.Reset(max(k.left, 0))
		}
		outer()
	}
}

// late tells whether a limit of this clock or an outer one was the end, and which.
func (k *clock) late() (limit time.Duration, is bool) {
	if context.Cause(k.ctx) == errLate {
		for k.outer != nil && context.Cause(k.outer.ctx) == errLate {
			k = k.outer
		}
		return k.limit, true
	}
	return 0, errors.Is(context.Cause(k.ctx), context.DeadlineExceeded)
}

// pause waits, or until the clock's end.
func (k *clock) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-k.ctx.Done():
		return context.Cause(k.ctx)
	}
}

// jitter spreads attempts of many hosts: between half of d and all of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) } // #nosec G404 -- a pause is no secret

// outermost is the clock that the others are within.
func (k *clock) outermost() *clock {
	for k.outer != nil {
		k = k.outer
	}
	return k
}
