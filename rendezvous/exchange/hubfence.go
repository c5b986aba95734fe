package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gorun/rendezvous/world"
)

// come takes a node's part in a fence.
func (h *Hub) come(from int, m *Message) {
	if err := h.checkCome(from, m); err != nil {
		h.refuse(from, m.ID, err)
		return
	}
	if r := h.refused[m.ID]; r.concerns(from) {
		h.heard(from, r)
		h.refuse(from, r.id, r.err)
		return
	}
	h.forgive(from, m.ID)
	f := h.fences[m.ID]
	if f == nil {
		f = newHubFence(m)
	}
	at, in := slices.BinarySearch(f.nodes, from)
	switch {
	case !in || !slices.Equal(f.nodes, m.Nodes):
		err := fmt.Errorf("exchange: node %d says that nodes %v come together, another %v", from, m.Nodes, f.nodes)
		if in { // else it is no business of this node's
			h.fail(f, err)
		}
		h.refuse(from, m.ID, err)
		return
	case f.came[at]:
		return
	case !h.keep(account{from, Come}, m.cost()):
		h.refuseAll(f, from, fmt.Errorf("exchange: too many fences of node %d are under way", from))
		return
	}
	err := h.missing(f) // maybe from this very node, which others were told
	f.blobs[at], f.came[at], f.costs[at] = m.body(), true, m.cost()
	f.left--
	h.fences[m.ID] = f
	h.watch()
	if err == nil && f.left == 0 {
		h.drop(f)
		h.sendPieces(f)
		return
	}
	for i, node := range f.nodes {
		if !f.came[i] {
			err = cmp.Or(err, h.absent[node], h.overfull[node])
		}
	}
	if err != nil {
		h.fail(f, err)
	}
}

// quit ends a fence that a node does not wait for any longer. What a node that has come
// gives up is not the next one of the same name, to which others have come already, nor is
// what a node gives up that had not come to one which others have given up meanwhile.
func (h *Hub) quit(from int, m *Message) {
	f := h.fences[m.ID]
	switch {
	case !m.Came && h.forgive(from, m.ID):
		return
	case f == nil:
		h.quitRefused(from, m)
		return
	}
	if at, in := slices.BinarySearch(f.nodes, from); in && f.came[at] == m.Came {
		h.expectQuits(f, from)
		h.fail(f, ErrGivenUp)
	}
}

// givenUp is a fence that was given up while some of its nodes had not come. Their ranks may
// be at the same fence, and give it up at the same time: the timeouts of all began together.
type givenUp struct {
	nodes []int // they have neither come to one of that name nor given one up since
	owner int   // on whose account it is
	cost  int
}

// expectQuits notes who may yet give up a fence that a node has given up. Where there is no
// room, the next fence of that name is given up in its place.
func (h *Hub) expectQuits(f *hubFence, from int) {
	g := &givenUp{owner: from, cost: 64 + len(f.id) + 8*len(f.nodes)}
	for at, node := range f.nodes {
		if !f.came[at] && node != from {
			g.nodes = append(g.nodes, node)
		}
	}
	if len(g.nodes) > 0 && h.givenUp[f.id] == nil && h.keep(account{from, Failed}, g.cost) {
		h.givenUp[f.id] = g
	}
}

// forgive reports whether a node may have meant a fence that was given up already, which is
// so once.
func (h *Hub) forgive(node int, id string) bool {
	g := h.givenUp[id]
	if g == nil || !slices.Contains(g.nodes, node) {
		return false
	}
	g.nodes = slices.DeleteFunc(g.nodes, func(other int) bool { return other == node })
	if len(g.nodes) == 0 {
		delete(h.givenUp, id)
		h.letGo(account{g.owner, Failed}, g.cost)
	}
	return true
}

func newHubFence(m *Message) *hubFence {
	n := len(m.Nodes)
	return &hubFence{
		id: m.ID, nodes: m.Nodes, members: m.Members, blobs: make([][]byte, n), came: make([]bool, n),
		costs: make([]int, n), left: n,
	}
}

// checkCome refuses what no node of ours says.
func (h *Hub) checkCome(from int, m *Message) error {
	switch {
	case len(m.Nodes) == 0 || m.Nodes[0] < 0 || m.Nodes[len(m.Nodes)-1] >= h.numNodes || !ascending(m.Nodes) ||
		!slices.Contains(m.Nodes, from):
		return fmt.Errorf("exchange: a fence of node %d names nodes %v of %d", from, m.Nodes, h.numNodes)
	case len(m.body()) > MaxBlob:
		return errTooLong("a part in a fence", len(m.body()), MaxBlob)
	case len(m.ID) > maxText:
		return errTooLong("the name of a fence", len(m.ID), maxText)
	case len(m.Members) > maxMembers:
		return fmt.Errorf("exchange: a fence of %d ranks: at most %d come together", len(m.Members), maxMembers)
	}
	return nil
}

// cost is what is kept of a node's part, in bytes.
func (m *Message) cost() int {
	const member, text = 40, 64
	return len(m.body()) + len(m.ID) + text + len(m.Nodes)*8 + len(m.Members)*member
}

// drop forgets a fence.
func (h *Hub) drop(f *hubFence) {
	delete(h.fences, f.id)
	for at, came := range f.came {
		if came {
			h.letGo(account{f.nodes[at], Come}, f.costs[at])
		}
	}
}

// fail forgets a fence, and tells those who have come to it why.
func (h *Hub) fail(f *hubFence, err error) {
	h.drop(f)
	var to []int
	for at, came := range f.came {
		if came {
			to = append(to, f.nodes[at])
		}
	}
	if len(to) > 0 {
		h.send(to, failed(f.id, err))
	}
}

// failed says that a fence will never be complete.
func failed(id string, err error) *Message {
	var left *LeftError
	if errors.As(err, &left) {
		return &Message{Kind: Failed, ID: id, Members: []world.Proc{left.Missing}}
	}
	return &Message{Kind: Failed, ID: id, Error: err.Error(), Lost: errors.Is(err, ErrNodeLost)}
}

// sendPieces sends the messages that complete a fence.
func (h *Hub) sendPieces(f *hubFence) {
	for first := 0; first < len(f.blobs); {
		next, size := first, 0
		for next < len(f.blobs) && (next == first || size+len(f.blobs[next]) <= maxPiece) {
			size += len(f.blobs[next])
			next++
		}
		h.send(f.nodes, &Message{
			Kind: Merged, ID: f.id, First: first, Blobs: f.blobs[first:next],
			Last: next == len(f.blobs),
		})
		first = next
	}
}

// missing is a *LeftError where a member has left from a node that has not come: of a whole world the smallest rank.
func (h *Hub) missing(f *hubFence) error {
	for _, p := range f.members {
		if node, left := h.gone[p.World][p.Rank]; left && f.waitsFor(node) {
			return &LeftError{p}
		}
		if p.Rank != world.AllRanks {
			continue
		}
		var missing []int
		for rank, node := range h.gone[p.World] {
			if f.waitsFor(node) {
				missing = append(missing, rank)
			}
		}
		if len(missing) > 0 {
			return &LeftError{world.Proc{World: p.World, Rank: slices.Min(missing)}}
		}
	}
	return nil
}

// waitsFor reports whether a node is expected that has not come.
func (f *hubFence) waitsFor(node int) bool {
	at, in := slices.BinarySearch(f.nodes, node)
	return in && !f.came[at]
}

// watch has nodes say who leaves, from now on; once.
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
