package exchange

// Settle waits until the callbacks that the node has queued so far have returned.
func (n *Node) Settle() {
	called := make(chan struct{})
	n.callbacks.add(func() { close(called) })
	<-called
}

// Kept returns the numbers of fences and requests in progress, and the bytes that are kept for them.
func (h *Hub) Kept() (fences, requests, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.usage {
		bytes += l.bytes
	}
	return len(h.fences), len(h.requests), bytes
}

// NumExited returns how many exited ranks of a node the hub remembers.
func (h *Hub) NumExited(node int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.numExited[node]
}

// Limits on fences and requests in progress per node.
const (
	MaxUnderway      = maxUnderway
	MaxUnderwayCount = maxUnderwayCount
	MaxPiece         = maxPiece
	MaxRankWaits     = maxRankWaits
)
