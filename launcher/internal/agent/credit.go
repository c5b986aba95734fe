package agent

import (
	"sync"

	"gorun/launcher/internal/process"
)

// credit bounds the output in flight to the head. A stream without credit is not read until the head has written
// some of it; ranks then block in write. It is safe for concurrent use.
type credit struct {
	group *process.Group
	limit int // per stream, in bytes

	mu     sync.Mutex
	left   [3]int // by stream, in bytes
	paused [3]bool
}

func newCredit(window int, group *process.Group) *credit {
	return &credit{group: group, limit: window, left: [3]int{0, window, window}}
}

func (c *credit) take(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] -= n
	c.apply(stream)
}

func (c *credit) add(stream, n int) {
	if stream != 1 && stream != 2 || n <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] += min(n, c.limit-c.left[stream]) // a head cannot raise the limit
	c.apply(stream)
}

// apply pauses or resumes a stream. mu is held, to keep the order of the calls.
func (c *credit) apply(stream int) {
	if pause := c.left[stream] <= 0; pause != c.paused[stream] {
		c.paused[stream] = pause
		if pause {
			c.group.Pause(stream)
		} else {
			c.group.Resume(stream)
		}
	}
}
