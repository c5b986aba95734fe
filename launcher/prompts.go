package launcher

import (
	"context"
	"sync/atomic"
	"time"
)

// prompts tracks whether a prompt, such as for a passphrase, waits for the user: hosts are not
// charged for that time.
type prompts struct{ open atomic.Bool }

// wrap tracks calls of ask, which do not overlap; nil stays nil.
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

// limit returns a context that ends, with cause context.DeadlineExceeded, after limit without an
// open prompt.
func (a *prompts) limit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	pause := min(limit/30, time.Second) // poll interval
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
