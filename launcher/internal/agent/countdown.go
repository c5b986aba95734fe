package agent

import (
	"sync"
	"time"
)

// countdown is a counter with a wait for 0. It is safe for concurrent use.
type countdown struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n becomes 0; nil: no waiter
}

func (c *countdown) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	if c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

// await waits up to limit and reports whether the counter was 0.
func (c *countdown) await(limit time.Duration) bool {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return true
	}
	if c.zero == nil {
		c.zero = make(chan struct{})
	}
	zero := c.zero
	c.mu.Unlock()
	select {
	case <-zero:
		return true
	case <-time.After(limit):
		return false
	}
}
