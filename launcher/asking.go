package launcher

import (
	"context"
	"sync"
	"time"
)

// asking counts the time that a person takes for an answer, such as a passphrase: it
// is not the hosts' delay.
type asking struct {
	mu    sync.Mutex
	since time.Time // zero: nobody is being asked
	spent time.Duration
}

// wrap counts the time that ask takes; nil stays nil. It is called once at a time.
func (a *asking) wrap(ask func(prompt string) (string, error)) func(prompt string) (string, error) {
	if ask == nil {
		return nil
	}
	return func(prompt string) (string, error) {
		a.turn(true)
		defer a.turn(false)
		return ask(prompt)
	}
}

func (a *asking) turn(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if on {
		a.since = time.Now()
		return
	}
	a.spent += time.Since(a.since)
	a.since = time.Time{}
}

// total is how long somebody has been asked so far, and whether he is now.
func (a *asking) total() (spent time.Duration, now bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return a.spent, false
	}
	return a.spent + time.Since(a.since), true
}

// askingPause is how often it is looked whether who is asked has answered.
const askingPause = 100 * time.Millisecond

// limit is a context that ends, by context.DeadlineExceeded as its cause, when so much
// time has passed in which nobody was being asked.
func (a *asking) limit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	began := time.Now()
	before, _ := a.total()
	var mu sync.Mutex // the timer may fire before its variable is set
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(limit, func() {
		spent, now := a.total()
		left := limit + spent - before - time.Since(began)
		switch {
		case now:
			left = max(left, askingPause)
		case left <= 0:
			cancel(context.DeadlineExceeded)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(left)
	})
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
