package launcher

import (
	"sync"

	"gorun/launcher/internal/wire"
)

// Limits on the bytes of each output stream in flight from one node.
const (
	maxWindow = 1 << 20
	allWindow = 16 << 20 // for all nodes, as far as each has minWindow
	minWindow = 32 << 10
)

// outputCredit returns credit to a node, in few frames, for output that was written.
type outputCredit struct {
	link   *wire.Link
	window int
	// excess is what the node may send beyond its window: what its threads were reading when the
	// credit was used up, and what ended ranks left in their pipes.
	excess   int
	mu       sync.Mutex
	owed     [3]int
	inFlight [3]int // received and not returned
}

// Limits on a node's excess.
const (
	rankExcess = 1<<20 + 256<<10 // per rank: the largest pipe, one read, and what a signal makes it print
	allExcess  = 64 << 20
)

// receive counts bytes and reports whether the node had credit for them.
func (c *outputCredit) receive(stream, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight[stream] += n
	return c.inFlight[stream] <= c.window+c.excess
}

func (c *outputCredit) addRanks(ranks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excess = min(c.excess+ranks*rankExcess, allExcess)
}

func (c *outputCredit) consumed(stream, n int) {
	c.mu.Lock()
	c.owed[stream] += n
	give := 0
	if c.owed[stream] >= c.window/4 {
		give, c.owed[stream] = c.owed[stream], 0
		c.inFlight[stream] -= give
	}
	c.mu.Unlock()
	if give > 0 {
		_ = c.link.Send(&wire.Credit{Stream: stream, Bytes: give})
	}
}

// countTwice returns credit for bytes only when they have been consumed twice.
func (c *outputCredit) countTwice(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed[stream] -= n
}

// consumed returns credit to the node whose rank's bytes were written.
func (h *head) consumed(rank, stream, n int) {
	node := 0
	if rank < len(h.plan.Load().Ranks) {
		node = h.plan.Load().Ranks[rank].Node
	}
	h.credits[node].consumed(stream, n)
}
