package launcher

import (
	"sync"
	"time"

	"gorun/launcher/doctor"
	"gorun/launcher/internal/wire"
)

// clock estimates by how much a node's clock is ahead of the head's, from the fastest
// answer so far: the time that a message takes is then the smallest. This is Cristian's
// method, https://doi.org/10.1007/BF01784024.
type clock struct {
	mu     sync.Mutex
	known  bool
	travel time.Duration // both ways
	ahead  time.Duration
}

// add takes up that a node's clock showed at between two moments of ours.
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

// ours is a moment of the node's clock by the head's.
func (c *clock) toLocal(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Add(-c.ahead)
}

// report is what is known of the clock.
func (c *clock) report() *doctor.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil
	}
	return &doctor.Clock{Ahead: c.ahead.Seconds(), Uncertainty: (c.travel / 2).Seconds()}
}

// askTime asks what time it is on a host that has just answered: the ping by which it was
// connected to has waited until its agent ran, which makes a poor estimate.
func (n *node) sampleClock() {
	if n.served == nil {
		_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // a link that has ended is noticed by who reads
	}
}
