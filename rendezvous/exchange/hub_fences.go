package exchange

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/rendezvous/world"
)

// hubFence is a fence that some of its nodes have entered.
type hubFence struct {
	id      string
	nodes   []int
	members []world.Proc
	// blobs, entered and costs are by index of nodes.
	blobs   [][]byte
	entered []bool
	costs   []int
	missing int // nodes that have not entered
}

func newHubFence(m *Message) *hubFence {
	n := len(m.Nodes)
	return &hubFence{
		id: m.ID, nodes: m.Nodes, members: m.Members, blobs: make([][]byte, n), entered: make([]bool, n),
		costs: make([]int, n), missing: n,
	}
}

// enter adds a node's part to a fence.
func (h *Hub) enter(from int, m *Message) {
	if err := h.checkEnter(from, m); err != nil {
		h.send([]int{from}, failed(m.ID, err))
		return
	}
	h.takeWithdrawal(from, m.ID)
	f := h.fences[m.ID]
	if f == nil {
		f = newHubFence(m)
	}
	at, in := slices.BinarySearch(f.nodes, from)
	switch {
	case !in || !slices.Equal(f.nodes, m.Nodes):
		err := fmt.Errorf("exchange: node %d enters a fence of nodes %v, another node enters one of %v",
			from, m.Nodes, f.nodes)
		if in { // a node that is not a member cannot end the fence
			h.fail(f, err)
		}
		h.send([]int{from}, failed(m.ID, err))
		return
	case f.entered[at]:
		return
	case !h.reserve(account{from, Enter}, m.cost()):
		h.refuse(from, f)
		return
	}
	err := h.exitedMember(f) // before from counts as entered: it may have reported the exit itself
	f.blobs[at], f.entered[at], f.costs[at] = m.body(), true, m.cost()
	f.missing--
	h.fences[m.ID] = f
	h.watch()
	if err == nil && f.missing == 0 {
		h.dropFence(f)
		h.sendMerged(f)
		return
	}
	for i, node := range f.nodes {
		if !f.entered[i] {
			err = cmp.Or(err, h.lost[node], h.full[node])
		}
	}
	if err != nil {
		h.fail(f, err)
	}
}

// checkEnter rejects parts that no correct node sends.
func (h *Hub) checkEnter(from int, m *Message) error {
	switch {
	case len(m.Nodes) == 0 || m.Nodes[0] < 0 || m.Nodes[len(m.Nodes)-1] >= h.numNodes || !ascending(m.Nodes) ||
		!slices.Contains(m.Nodes, from):
		return fmt.Errorf("exchange: a fence of node %d names nodes %v of %d", from, m.Nodes, h.numNodes)
	case len(m.body()) > MaxBlob:
		return errTooLong("a part in a fence", len(m.body()), MaxBlob)
	case len(m.ID) > maxText:
		return errTooLong("the name of a fence", len(m.ID), maxText)
	case len(m.Members) > maxMembers:
		return fmt.Errorf("exchange: a fence of %d ranks: at most %d are allowed", len(m.Members), maxMembers)
	}
	return nil
}

// refuse fails a fence because one more part of node exceeds its limits. Until something of the node's is released,
// every fence that waits for it fails, too.
func (h *Hub) refuse(node int, f *hubFence) {
	err := fmt.Errorf("exchange: too many fences of node %d are in progress", node)
	h.fail(f, err)
	h.send([]int{node}, failed(f.id, err))
	h.full[node] = err
	h.failAll(node, err)
}

// withdraw ends a fence that a node no longer waits for. Fences reuse IDs, so the node may mean an earlier fence: one
// that it had entered is not the next one, and neither is one that others have withdrawn from meanwhile.
func (h *Hub) withdraw(from int, m *Message) {
	f := h.fences[m.ID]
	if !m.Entered && h.takeWithdrawal(from, m.ID) || f == nil {
		return
	}
	if at, in := slices.BinarySearch(f.nodes, from); in && f.entered[at] == m.Entered {
		h.expectWithdrawals(f, from)
		h.fail(f, ErrWithdrawn)
	}
}

// withdrawnFence is a fence that a node withdrew from before others had entered it. Their ranks may be waiting at the
// same fence and withdraw at the same time, since all timeouts began together.
type withdrawnFence struct {
	nodes []int // have neither entered a fence of this ID nor withdrawn from one since
	owner int   // whose account pays
	cost  int
}

// expectWithdrawals records which nodes may still withdraw from f. Without room for that, such a withdrawal ends the
// next fence of the same ID instead.
func (h *Hub) expectWithdrawals(f *hubFence, from int) {
	w := &withdrawnFence{owner: from, cost: 64 + len(f.id) + 8*len(f.nodes)}
	for at, node := range f.nodes {
		if !f.entered[at] && node != from {
			w.nodes = append(w.nodes, node)
		}
	}
	if len(w.nodes) > 0 && h.withdrawn[f.id] == nil && h.reserve(account{from, Withdraw}, w.cost) {
		h.withdrawn[f.id] = w
	}
}

// takeWithdrawal reports, once, whether node may still withdraw from an earlier fence of this ID.
func (h *Hub) takeWithdrawal(node int, id string) bool {
	w := h.withdrawn[id]
	if w == nil {
		return false
	}
	at := slices.Index(w.nodes, node)
	if at < 0 {
		return false
	}
	if w.nodes = slices.Delete(w.nodes, at, at+1); len(w.nodes) == 0 {
		delete(h.withdrawn, id)
		h.release(account{w.owner, Withdraw}, w.cost)
	}
	return true
}

func (h *Hub) dropFence(f *hubFence) {
	delete(h.fences, f.id)
	for at, entered := range f.entered {
		if entered {
			h.release(account{f.nodes[at], Enter}, f.costs[at])
		}
	}
}

// fail drops a fence and tells the nodes that have entered it why.
func (h *Hub) fail(f *hubFence, err error) {
	h.dropFence(f)
	var to []int
	for at, entered := range f.entered {
		if entered {
			to = append(to, f.nodes[at])
		}
	}
	if len(to) > 0 {
		h.send(to, failed(f.id, err))
	}
}

// failAll fails the fences that wait for a node.
func (h *Hub) failAll(node int, err error) {
	for _, f := range h.fences {
		if f.waitsFor(node) {
			h.fail(f, err)
		}
	}
}

// sendMerged completes a fence.
func (h *Hub) sendMerged(f *hubFence) {
	for first := 0; first < len(f.blobs); {
		next, size := first, 0
		for next < len(f.blobs) && (next == first || size+len(f.blobs[next]) <= maxPiece) {
			size += len(f.blobs[next])
			next++
		}
		h.send(f.nodes, &Message{
			Kind: Merged, ID: f.id, First: first, Blobs: f.blobs[first:next], Last: next == len(f.blobs),
		})
		first = next
	}
}

// exitedMember returns an [*ExitedError] if a member has exited on a node that has not entered. Of a whole world it
// names the smallest such rank.
func (h *Hub) exitedMember(f *hubFence) error {
	for _, p := range f.members {
		if node, exited := h.exited[p.World][p.Rank]; exited && f.waitsFor(node) {
			return &ExitedError{p}
		}
		if p.Rank != world.AllRanks {
			continue
		}
		var ranks []int
		for rank, node := range h.exited[p.World] {
			if f.waitsFor(node) {
				ranks = append(ranks, rank)
			}
		}
		if len(ranks) > 0 {
			return &ExitedError{world.Proc{World: p.World, Rank: slices.Min(ranks)}}
		}
	}
	return nil
}

// waitsFor reports whether node is expected and has not entered.
func (f *hubFence) waitsFor(node int) bool {
	at, in := slices.BinarySearch(f.nodes, node)
	return in && !f.entered[at]
}
