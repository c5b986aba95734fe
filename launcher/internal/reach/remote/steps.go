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

// WithProgress has watch called with what an attempt to reach a host does, on the goroutine that does it.
func WithProgress(ctx context.Context, watch func(Progress)) context.Context {
	return context.WithValue(ctx, watchKey{}, watch)
}

// ReportProgress tells the context's watcher, if there is one, how far an attempt is.
func ReportProgress(ctx context.Context, now Progress) {
	if watch, ok := ctx.Value(watchKey{}).(func(Progress)); ok {
		watch(now)
	}
}

// ReportStep tells it that a step begins.
func ReportStep(ctx context.Context, step Step) { ReportProgress(ctx, Progress{Step: step}) }

// WithoutProgress is the context of work that is done for several attempts, such as logging
// in to a jump host, whose steps are none of theirs.
func WithoutProgress(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, nil)
}
