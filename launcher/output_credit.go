package launcher

import (
	"sync"

	"gorun/launcher/internal/wire"
)

// How much of each output stream may be under way between the pipes of a node's ranks
// and our own standard output, in bytes.
const (
	maxWindow = 1 << 20  // of one node
	allWindow = 16 << 20 // of all, as long as minWindow is left to each
	minWindow = 32 << 10
)

// credit gives back to the node, in few frames, what the console has written.
type outputCredit struct {
	link   *wire.Link
	window int
	// excess is how much more than it was given the node may send: what its threads were reading
	// when the credit was used up, and what ranks that ended left in their pipes.
	excess   int
	mu       sync.Mutex
	owed     [3]int
	inFlight [3]int // bytes that came and were not given back
}

// Bounds of a node's excess.
const (
	rankExcess = 1<<20 + 256<<10 // for each of its ranks: the largest pipe, a read and what it is asked by a signal
	allExcess  = 64 << 20
)

// take takes up that bytes came, and reports whether the node had credit for them.
func (c *outputCredit) receive(stream, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight[stream] += n
	return c.inFlight[stream] <= c.window+c.excess
}

// grow is for a node that got more ranks.
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

// owes: bytes are to be given back once more than they came.
func (c *outputCredit) countTwice(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed[stream] -= n
}

// consumed gives credit back to the node whose rank's bytes were written.
func (h *head) consumed(rank, stream, n int) {
	node := 0
	if rank < len(h.plan.Load().Ranks) {
		node = h.plan.Load().Ranks[rank].Node
	}
	h.credits[node].consumed(stream, n)
}
