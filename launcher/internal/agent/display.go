package agent

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// display shows what a node's ranks print on this process's own standard output and
// error. The head hears the last lines of ranks that fail, and no more.
type display struct {
	*output.Console
	hidden  spec.Streams
	closing context.Context
	hurry   context.CancelFunc
}

// impatience is how long a reader that does not read may hold up the end of ranks that
// were asked to end.
const hurryDelay = time.Second

// Display is how a process that is one rank shows what that prints.
type Display struct {
	// Console leaves Ranks, Consumed and Failed open.
	Console output.Config
	// Role is the ranks' role, for labels, and Tee are the streams that go to a file, too.
	Role string
	Tee  spec.Streams
	// Hidden are the streams that go to a file alone, also where the head writes that.
	Hidden spec.Streams
}

// newDisplay returns nil where the head shows what ranks print.
func (j *job) newDisplay() *display {
	config := j.agent.cfg.Display
	if config == nil {
		return nil
	}
	cfg := config.Console
	host, _ := os.Hostname() // "" is seen in labels, no more
	for _, row := range j.start.Ranks {
		cfg.Ranks = append(cfg.Ranks, output.RankInfo{
			Rank: row.Rank, LocalRank: row.LocalRank, Host: host,
			Role: config.Role, Tee: config.Tee,
		})
	}
	cfg.Consumed = func(_, stream, n int) { j.credit.add(stream, n) }
	cfg.Failed = func(stream int, err error) {
		_ = j.agent.link.Send(&wire.OutputLost{Stream: stream, ReaderGone: errors.Is(err, syscall.EPIPE), Text: err.Error()})
	}
	d := &display{Console: output.NewConsole(cfg), hidden: config.Hidden}
	d.closing, d.hurry = context.WithCancel(context.Background())
	return d
}

// end closes a rank's stream.
func (d *display) end(rank, stream int) {
	if d != nil {
		d.End(rank, stream)
	}
}

// asked: ranks were asked to end, and nobody waits for a reader any more.
func (d *display) hurryUp() {
	if d != nil {
		time.AfterFunc(hurryDelay, d.hurry)
	}
}

// close waits until everything is written.
func (d *display) close() {
	if d != nil {
		_ = d.Close(d.closing) // failed writes were told when they failed
		d.hurry()
	}
}

// last are a rank's last lines, of its standard error if there are any.
func (d *display) last(rank int) []string {
	if d == nil {
		return nil
	}
	if lines := d.Tail(rank, output.Stderr); len(lines) > 0 {
		return lines
	}
	return d.Tail(rank, output.Stdout)
}
