package exchange

import (
	"maps"
	"slices"
)

// Settle waits until all functions that the node has to call were called.
func (n *Node) Settle() {
	called := make(chan struct{})
	n.calls.add(func() { close(called) })
	<-called
}

// Kept is how many fences and questions are under way, and the bytes that are kept of them.
func (h *Hub) Kept() (fences, questions, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.kept {
		bytes += l.bytes
	}
	return len(h.fences), len(h.asked), bytes
}

// Refused are the fences that not all of their nodes know to be refused.
func (h *Hub) Refused() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.refused))
}

// NumGone is how many ranks are remembered to have left a node.
func (h *Hub) NumGone(node int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.numGone[node]
}

// Limits of what nodes may have under way.
const (
	MaxUnderway      = maxUnderway
	MaxUnderwayCount = maxUnderwayCount
	MaxPiece         = maxPiece
	MaxRankWaits     = maxRankWaits
	MaxRefused       = maxRefused
)
