package exchange

import (
	"errors"
	"fmt"
	"slices"

	"gorun/rendezvous/world"
)

// hearLeft notes who has left a node, and fails the fences that wait for them. A rank may
// be said to have left more than once.
func (h *Hub) hearLeft(from int, left []world.Proc) {
	var tell []func(world.Proc)
	h.do(func() {
		tell = h.onLeft
		left = slices.DeleteFunc(slices.Clone(left), func(p world.Proc) bool { return !h.noteLeft(from, p) })
		for _, f := range h.fences {
			if len(left) > 0 && f.waitsFor(from) {
				if err := h.missing(f); err != nil {
					h.fail(f, err)
				}
			}
		}
	})
	for _, f := range tell {
		for _, p := range left {
			f(p)
		}
	}
}

// noteLeft reports whether it is new that a rank has left a node, and there is room to
// remember it.
func (h *Hub) noteLeft(from int, p world.Proc) bool {
	gone := h.gone[p.World]
	by, known := gone[p.Rank]
	switch {
	case known && by == from || h.numGone[from] >= maxMembers:
		return false
	case known:
		h.numGone[by]--
	case gone == nil:
		gone = map[int]int{}
		h.gone[p.World] = gone
	}
	gone[p.Rank] = from
	h.numGone[from]++
	return true
}

// NodeLost says that nothing more comes from a node, whose ranks may run: fences that it
// has not come to, and questions to it, fail with ErrNodeLost.
func (h *Hub) NodeLost(node int) { h.nodeEnded(node, lostError(fmt.Sprintf("node %d is lost", node))) }

// NodeGone says that a node has ended in good order, whose ranks, all of them, had ended
// before: fences that wait for them fail as they do when ranks leave, and questions to it
// with ErrNodeLost.
func (h *Hub) NodeGone(node int, procs []world.Proc) {
	h.hearLeft(node, procs)
	h.nodeEnded(node, lostError(fmt.Sprintf("all ranks of node %d have ended", node)))
}

// nodeEnded fails what waits for a node, once.
func (h *Hub) nodeEnded(node int, why error) {
	h.do(func() {
		if h.absent[node] != nil {
			return
		}
		h.absent[node] = why
		h.failAll(node, why)
		for q, u := range h.asked {
			if q.from == node {
				h.forget(q, u)
			} else {
				h.settle(q, node, nil, why)
			}
		}
	})
}

// failAll fails the fences that wait for a node.
func (h *Hub) failAll(node int, why error) {
	for _, f := range h.fences {
		if f.waitsFor(node) {
			h.fail(f, why)
		}
	}
}

// lostError is an ErrNodeLost that says which node.
type lostError string

func (e lostError) Error() string { return string(e) }

func (e lostError) Is(target error) bool { return target == ErrNodeLost }

// errorOf is the error that a message of the hub carries; nil: none.
func errorOf(m *Message) error {
	switch {
	case m.Lost:
		return lostError(m.Error)
	case m.Error == "":
		return nil
	case m.Error == ErrGivenUp.Error():
		return ErrGivenUp
	}
	return errors.New(m.Error)
}
