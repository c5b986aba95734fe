package launcher

import (
	"context"
	"io"
	"time"

	"gorun/launcher/hosts"
)

// Reach replaces the connection to an agent in tests.
type Reach func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error)

func (r Reach) reach(ctx context.Context, h hosts.Host) (agentStream, error) {
	stream, err := r(ctx, h)
	return agentStream{stream: stream}, err
}

func (Reach) close() {}

// WithReach replaces SSH.
func WithReach(r Reach) func(*Options) { return func(o *Options) { o.reacher = r } }

// WithAskLimit sets the time limit for an answer to a check.
func WithAskLimit(limit time.Duration) func(*Options) {
	return func(o *Options) { o.answerLimit = limit }
}

// Cleaned exports printableJSON to tests.
var Cleaned = printableJSON
