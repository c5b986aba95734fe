package agent

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// display shows the ranks' output on this process's standard output and error. The head gets only the last lines of
// ranks that fail. Its methods accept nil and are safe for concurrent use.
type display struct {
	*output.Console
	hidden  spec.Streams
	closing context.Context
	hurry   context.CancelFunc
}

// hurryDelay is how long a blocked reader may delay the end of ranks that were requested to end.
const hurryDelay = time.Second

// Display configures how a process that is a single rank shows the rank's output.
type Display struct {
	// Console must not set Ranks, Consumed and Failed.
	Console output.Config
	// Role is the ranks' role, for labels. Tee are the streams that are also written to a file.
	Role string
	Tee  spec.Streams
	// Hidden are the streams that are only written to a file, even by the head.
	Hidden spec.Streams
}

// newDisplay returns nil if the head shows the output.
func (j *job) newDisplay() *display {
	config := j.agent.cfg.Display
	if config == nil {
		return nil
	}
	cfg := config.Console
	host, _ := os.Hostname() // only for labels
	for _, row := range j.start.Ranks {
		cfg.Ranks = append(cfg.Ranks, output.RankInfo{
			Rank: row.Rank, LocalRank: row.LocalRank, Host: host,
			Role: config.Role, Tee: config.Tee,
		})
	}
	cfg.Consumed = func(_, stream, n int) { j.credit.add(stream, n) }
	cfg.Failed = func(stream int, err error) {
		lost := wire.OutputLost{Stream: stream, ReaderGone: errors.Is(err, syscall.EPIPE), Text: printable.Error(err)}
		_ = j.agent.link.Send(&lost)
	}
	d := &display{Console: output.NewConsole(cfg), hidden: config.Hidden}
	d.closing, d.hurry = context.WithCancel(context.Background())
	return d
}

// end ends a rank's stream.
func (d *display) end(rank, stream int) {
	if d != nil {
		d.End(rank, stream)
	}
}

// hurryUp limits the wait for a blocked reader, as ranks were requested to end within a grace period.
func (d *display) hurryUp(grace time.Duration) {
	if d != nil {
		time.AfterFunc(grace+hurryDelay, d.hurry)
	}
}

// close waits until all output is written.
func (d *display) close() {
	if d != nil {
		_ = d.Close(d.closing) // failed writes were reported by Failed
		d.hurry()
	}
}

// last returns a rank's last lines, preferably of standard error.
func (d *display) last(rank int) []string {
	if d == nil {
		return nil
	}
	if lines := d.Tail(rank, output.Stderr); len(lines) > 0 {
		return lines
	}
	return d.Tail(rank, output.Stdout)
}
