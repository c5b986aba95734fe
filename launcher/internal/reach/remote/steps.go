package remote

import "context"

// watchKey is the key of a context's watcher.
type watchKey struct{}

// WithWatcher has watch called with the step that an attempt to reach a host begins,
// on the goroutine that does it. The attempt may go back: to StepConnect when it is
// repeated.
func WithWatcher(ctx context.Context, watch func(Step)) context.Context {
	return context.WithValue(ctx, watchKey{}, watch)
}

// Begin tells the context's watcher, if there is one, that a step begins.
func Begin(ctx context.Context, step Step) {
	if watch, ok := ctx.Value(watchKey{}).(func(Step)); ok {
		watch(step)
	}
}

// Unwatched is the context of work that is done for several attempts, such as logging
// in to a jump host, whose steps are none of theirs.
func Unwatched(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, nil)
}
