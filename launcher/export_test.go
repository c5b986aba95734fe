package launcher

import (
	"context"
	"io"
	"time"

	"gorun/launcher/hosts"
)

// Reach is how tests come to agents.
type Reach func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error)

func (r Reach) reach(ctx context.Context, h hosts.Host) (agentStream, error) {
	stream, err := r(ctx, h)
	return agentStream{stream: stream}, err
}

func (Reach) close() {}

// WithReach replaces SSH.
func WithReach(r Reach) Option { return func(s *settings) { s.reacher = r } }

// WithAskLimit is how long a check waits for an answer.
func WithAskLimit(limit time.Duration) Option { return func(s *settings) { s.answerLimit = limit } }

// Cleaned is cleaned.
var Cleaned = printableJSON
