package launcher

import (
	"context"
	"sync/atomic"
	"time"
)

// asking knows whether a person is being asked, such as for a passphrase: the time that takes is not the hosts' delay.
type prompts struct{ open atomic.Bool }

// wrap notes when ask is waited for; nil stays nil. It is called once at a time.
func (a *prompts) wrap(ask func(prompt string) (string, error)) func(prompt string) (string, error) {
	if ask == nil {
		return nil
	}
	return func(prompt string) (string, error) {
		a.open.Store(true)
		defer a.open.Store(false)
		return ask(prompt)
	}
}

// limit is a context that ends, by context.DeadlineExceeded as its cause, when so much time has passed in which nobody
// was being asked.
func (a *prompts) limit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	pause := min(limit/30, time.Second) // how often it is looked whether who is asked has answered
	go func() {
		tick := time.NewTicker(max(pause, 1))
		defer tick.Stop()
		for left := limit; left > 0; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !a.open.Load() {
					left -= pause
				}
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}
