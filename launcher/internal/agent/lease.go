package agent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/wire"
)

// lease is how long the agent goes on without hearing of the head. Frames are counted
// in looks, not in time: an agent that was stopped and goes on has not been waiting
// meanwhile, and what the head sent then is still to be read.
type lease struct {
	linkClosed chan struct{} // closed at the end of the connection
	once       sync.Once
	missed     atomic.Int32 // looks that saw nothing new
	paused     atomic.Bool  // the head is suspended
	expired    atomic.Bool
	limit      atomic.Int64 // a time.Duration
}

// leaseLooks is how often it is looked within a lease.
const leaseChecks = 10

// maxLostGrace bounds what ranks get to end in order when nobody is left to wait for
// them.
const maxLostGrace = 10 * time.Second

// begin looks from now on whether the head is heard of; the link is closed when it is
// not. Another limit replaces the one before.
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

// pause: the head is about to be stopped, by Ctrl-Z, and says when it goes on.
func (l *lease) pause() { l.paused.Store(true) }

// grace is what ranks get when the connection has ended: none if somebody killed the
// head, which has closed it; some if the network did.
func (l *lease) grace() time.Duration {
	if l.expired.Load() {
		return maxLostGrace
	}
	return 0
}

// explain says why the connection has ended.
func (l *lease) explain(err error) error {
	if l.expired.Load() { // then err is only that we closed the connection
		return fmt.Errorf("nothing was heard of the head for %s: its link is cut, or its host hangs",
			time.Duration(l.limit.Load()))
	}
	return err
}

// pong answers a heartbeat.
func (a *Agent) pong(p wire.Ping) error {
	a.lease.begin(p.Lease, a.link)
	return a.link.Send(&wire.Pong{Sent: p.Sent, At: time.Now(), Progress: a.signs()})
}

// signs is different whenever something of the job has gone on here.
func (a *Agent) signs() (sum int64) {
	if a.job == nil {
		return 0
	}
	for _, sign := range a.job.progress() {
		sum += sign
	}
	return sum
}
