package remote

import "context"

// Progress is how far reaching a host is.
type Progress struct {
	// Step is what begins, or goes on. It may go back: to StepConnect when an attempt is repeated.
	Step Step
	// Sent and Total are bytes; both 0 where nothing has to be sent.
	Sent, Total int64
	// Running tells that the program has been started.
	Running bool
}

// watchKey is the key of a context's watcher.
type watchKey struct{}

// WithWatcher has watch called with what an attempt to reach a host does, on the goroutine that does it.
func WithWatcher(ctx context.Context, watch func(Progress)) context.Context {
	return context.WithValue(ctx, watchKey{}, watch)
}

// Report tells the context's watcher, if there is one, how far an attempt is.
func Report(ctx context.Context, now Progress) {
	if watch, ok := ctx.Value(watchKey{}).(func(Progress)); ok {
		watch(now)
	}
}

// Begin tells it that a step begins.
func Begin(ctx context.Context, step Step) { Report(ctx, Progress{Step: step}) }

// Unwatched is the context of work that is done for several attempts, such as logging
// in to a jump host, whose steps are none of theirs.
func Unwatched(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, nil)
}
