package exchange

import (
	"fmt"
	"slices"

	"gorun/rendezvous/world"
)

// watch has all nodes report exited ranks from now on.
func (h *Hub) watch() {
	if h.watching {
		return
	}
	h.watching = true
	all := make([]int, h.numNodes)
	for i := range all {
		all[i] = i
	}
	h.send(all, &Message{Kind: Watch})
}

// ranksExited records exits that a node reports, and fails the fences that wait for those ranks. A rank may be reported
// more than once.
func (h *Hub) ranksExited(from int, ranks []world.Proc) {
	var notify []func(world.Proc)
	h.locked(func() {
		notify = h.onExit
		ranks = slices.DeleteFunc(slices.Clone(ranks), func(p world.Proc) bool { return !h.recordExit(from, p) })
		for _, f := range h.fences {
			if len(ranks) > 0 && f.waitsFor(from) {
				if err := h.exitedMember(f); err != nil {
					h.fail(f, err)
				}
			}
		}
	})
	for _, f := range notify {
		for _, p := range ranks {
			f(p)
		}
	}
}

// recordExit reports whether the exit is news and there is room to remember it.
func (h *Hub) recordExit(from int, p world.Proc) bool {
	ranks := h.exited[p.World]
	by, known := ranks[p.Rank]
	switch {
	case known && by == from || h.numExited[from] >= maxMembers:
		return false
	case known:
		h.numExited[by]--
	case ranks == nil:
		ranks = map[int]int{}
		h.exited[p.World] = ranks
	}
	ranks[p.Rank] = from
	h.numExited[from]++
	return true
}

// NodeLost reports that nothing more comes from a node, whose ranks may still run. Fences that it has not entered and
// requests to it fail with [ErrNodeLost].
func (h *Hub) NodeLost(node int) { h.nodeEnded(node, fmt.Sprintf("node %d is lost", node)) }

// NodeExited reports that a node has ended after all of its ranks, which are procs. Fences that wait for them fail with
// an [*ExitedError], requests to the node with [ErrNodeLost].
func (h *Hub) NodeExited(node int, procs []world.Proc) {
	h.ranksExited(node, procs)
	h.nodeEnded(node, fmt.Sprintf("all ranks of node %d have exited", node))
}

func (h *Hub) nodeEnded(node int, text string) {
	h.locked(func() {
		if h.lost[node] != nil {
			return
		}
		err := &kindError{ErrNodeLost, text}
		h.lost[node] = err
		h.failAll(node, err)
		for id, r := range h.requests {
			if id.from == node {
				h.drop(id, r)
			} else {
				h.finish(id, node, nil, err)
			}
		}
	})
}
