package launcher

import (
	"sync"
	"time"

	"gorun/launcher/doctor"
	"gorun/launcher/internal/wire"
)

// clock estimates the offset of a node's clock by Cristian's method, from the answer with the
// shortest round trip: https://doi.org/10.1007/BF01784024.
type clock struct {
	mu     sync.Mutex
	known  bool
	travel time.Duration // round trip
	ahead  time.Duration
}

// sample adds a reading: the node's clock showed at between sent and received.
func (c *clock) sample(sent, at, received time.Time) {
	travel := received.Sub(sent)
	if sent.IsZero() || travel < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || travel < c.travel {
		c.known, c.travel, c.ahead = true, travel, at.Sub(sent.Add(travel/2))
	}
}

// toLocal converts a time of the node's clock to the head's.
func (c *clock) toLocal(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Add(-c.ahead)
}

// aheadSeconds is by how much the node's clock is ahead, in whole microseconds; 0: not known, too.
func (c *clock) aheadSeconds() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead.Round(time.Microsecond).Seconds()
}

// report returns nil without a sample.
func (c *clock) report() *doctor.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil
	}
	return &doctor.Clock{Ahead: c.ahead.Seconds(), Uncertainty: (c.travel / 2).Seconds()}
}

// sampleClock requests the time from a host that has just answered. The ping that opened the
// connection waited for its agent to start, which makes a poor estimate.
func (n *node) sampleClock() {
	if n.served == nil {
		_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // readLoop notices a lost link
	}
}
