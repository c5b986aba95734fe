package agent

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/wire"
)

// lease ends the agent if the head sends no frame for a while. It counts checks instead of time: an agent that was
// stopped and continued has not waited meanwhile, and must read first what the head has sent. It is safe for
// concurrent use.
type lease struct {
	linkClosed chan struct{} // closed at the end of the connection
	once       sync.Once
	missed     atomic.Int32 // looks that saw nothing new
	paused     atomic.Bool  // the head is suspended
	expired    atomic.Bool
	dismissed  atomic.Bool  // the head does without this node
	ended      atomic.Bool  // by the user of this node
	limit      atomic.Int64 // a time.Duration
}

// leaseChecks is the number of checks per lease.
const leaseChecks = 10

// maxLostGrace is the grace period of ranks if the connection to the head is lost.
const maxLostGrace = 10 * time.Second

// begin starts the lease, or changes its limit. When it expires, the link is closed.
func (l *lease) begin(limit time.Duration, link *wire.Link) {
	if limit <= 0 {
		return
	}
	l.limit.Store(int64(limit))
	l.once.Do(func() { go l.watch(link) })
}

func (l *lease) watch(link *wire.Link) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Duration(l.limit.Load()) / leaseChecks)
		select {
		case <-l.linkClosed:
			return
		case <-timer.C:
		}
		if !l.paused.Load() && l.missed.Add(1) > leaseChecks {
			l.expired.Store(true)
			_ = link.Close()
			return
		}
	}
}

func (l *lease) renew() {
	l.missed.Store(0)
	l.paused.Store(false)
}

// pause suspends the lease until the next frame: the head is about to be stopped by Ctrl-Z.
func (l *lease) pause() { l.paused.Store(true) }

// grace returns the grace period of ranks after the connection has ended: none if it was closed, which means that
// the head was killed; some if the lease has expired, or if this node leaves the job.
func (l *lease) grace() time.Duration {
	if l.expired.Load() || l.dismissed.Load() {
		return maxLostGrace
	}
	return 0
}

// ErrSilent is in the error of [Serve] if the head sent no frame during the lease.
var ErrSilent = errors.New("no message from the launcher")

// ErrInterrupted is the error of [Serve] after a second SIGINT.
var ErrInterrupted = errors.New("SIGINT came twice")

// explain returns why the connection has ended.
func (l *lease) explain(err error) error {
	if l.ended.Load() {
		return ErrInterrupted
	}
	if l.expired.Load() { // err is that we closed the connection
		return fmt.Errorf("%w for %s: the connection is cut, or the launcher's host hangs", ErrSilent,
			time.Duration(l.limit.Load()))
	}
	return err
}

// pong answers a heartbeat.
func (a *Agent) pong(p wire.Ping) error {
	a.lease.begin(p.Lease, a.link)
	return a.link.Send(&wire.Pong{Sent: p.Sent, At: time.Now()})
}
