package remote

import "context"

// Progress is the progress of connecting to a host.
type Progress struct {
	// Step begins, or goes on. It may go back to StepConnect for another attempt.
	Step Step
	// Sent and Total are bytes; both are 0 if nothing has to be sent.
	Sent, Total int64
	// Running says that the program has been started.
	Running bool
}

type progressKey struct{}

// WithProgress returns a context with which an attempt to reach a host calls report, on its own goroutine.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress calls the context's report function, if there is one.
func ReportProgress(ctx context.Context, p Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		report(p)
	}
}

// ReportStep reports that a step begins.
func ReportStep(ctx context.Context, step Step) { ReportProgress(ctx, Progress{Step: step}) }

// WithoutProgress returns a context for work on behalf of several attempts, such as the login to a jump host.
func WithoutProgress(ctx context.Context) context.Context {
	return context.WithValue(ctx, progressKey{}, nil)
}
