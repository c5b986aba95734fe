package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gorun/rendezvous/world"
)

// come takes a node's part in a fence.
func (h *Hub) come(from int, m *Message) []outgoing {
	if err := h.checkCome(from, m); err != nil {
		return refuse(from, m.ID, err)
	}
	if r := h.refused[m.ID]; r.concerns(from) {
		return h.refuseAgain(from, r)
	}
	h.forgive(from, m.ID)
	f := h.fences[m.ID]
	if f == nil {
		f = newHubFence(m)
	}
	at, in := slices.BinarySearch(f.nodes, from)
	if !in || !slices.Equal(f.nodes, m.Nodes) {
		err := fmt.Errorf("exchange: node %d says that nodes %v come together, another %v", from, m.Nodes, f.nodes)
		if !in { // it is no business of this node's
			return refuse(from, m.ID, err)
		}
		return append(h.fail(f, nil, err), refuse(from, m.ID, err)...)
	}
	switch {
	case f.came[at]:
		return nil
	case !h.keep(account{from, Come}, m.cost()):
		return h.refuseAll(f, from, fmt.Errorf("exchange: too many fences of node %d are under way", from))
	}
	missing, left := h.whoIsMissing(f)
	f.blobs[at], f.came[at], f.costs[at] = m.body(), true, m.cost()
	f.left--
	h.fences[m.ID] = f
	out := h.watch(nil)
	switch {
	case left: // maybe from this very node, which others were told
		return append(out, h.fail(f, &missing, nil)...)
	case f.left == 0:
		h.drop(f)
		return append(out, pieces(f)...)
	}
	for i, node := range f.nodes {
		if err := cmp.Or(h.absent[node], h.overfull[node]); err != nil && !f.came[i] {
			return append(out, h.fail(f, nil, err)...)
		}
	}
	return out
}

// quit ends a fence that a node does not wait for any longer. What a node that has come
// gives up is not the next one of the same name, to which others have come already, nor is
// what a node gives up that had not come to one which others have given up meanwhile.
func (h *Hub) quit(from int, m *Message) []outgoing {
	f := h.fences[m.ID]
	switch {
	case !m.Came && h.forgive(from, m.ID):
		return nil
	case f == nil:
		h.quitRefused(from, m)
		return nil
	}
	if at, in := slices.BinarySearch(f.nodes, from); !in || f.came[at] != m.Came {
		return nil
	}
	h.expectQuits(f, from)
	return h.fail(f, nil, ErrGivenUp)
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
func (h *Hub) fail(f *hubFence, missing *world.Proc, err error) []outgoing {
	h.drop(f)
	var to []int
	for at, came := range f.came {
		if came {
			to = append(to, f.nodes[at])
		}
	}
	if len(to) == 0 {
		return nil
	}
	return []outgoing{{to, failed(f.id, missing, err)}}
}

// failed says that a fence will never be complete, for a rank that is missing or another
// reason.
func failed(id string, missing *world.Proc, err error) *Message {
	if missing != nil {
		return &Message{Kind: Failed, ID: id, Members: []world.Proc{*missing}}
	}
	return &Message{Kind: Failed, ID: id, Error: err.Error(), Lost: errors.Is(err, ErrNodeLost)}
}

// pieces are the messages that complete a fence.
func pieces(f *hubFence) (out []outgoing) {
	for first := 0; first < len(f.blobs); {
		next, size := first, 0
		for next < len(f.blobs) && (next == first || size+len(f.blobs[next]) <= maxPiece) {
			size += len(f.blobs[next])
			next++
		}
		out = append(out,
			outgoing{f.nodes, &Message{
				Kind: Merged, ID: f.id, First: first, Blobs: f.blobs[first:next],
				Last: next == len(f.blobs),
			}})
		first = next
	}
	return out
}

// whoIsMissing finds a member that has left from a node that has not come.
func (h *Hub) whoIsMissing(f *hubFence) (world.Proc, bool) {
	if len(h.gone) == 0 {
		return world.Proc{}, false
	}
	for _, p := range f.members {
		gone := h.gone[p.World]
		if p.Rank != world.AllRanks {
			if node, left := gone[p.Rank]; left && f.waitsFor(node) {
				return p, true
			}
			continue
		}
		if rank, found := f.firstMissing(gone); found {
			return world.Proc{World: p.World, Rank: rank}, true
		}
	}
	return world.Proc{}, false
}

// firstMissing is the smallest of the ranks that have left from a node that has not come.
func (f *hubFence) firstMissing(gone map[int]int) (first int, found bool) {
	for rank, node := range gone {
		if f.waitsFor(node) && (!found || rank < first) {
			first, found = rank, true
		}
	}
	return first, found
}

// waitsFor reports whether a node is expected that has not come.
func (f *hubFence) waitsFor(node int) bool {
	at, in := slices.BinarySearch(f.nodes, node)
	return in && !f.came[at]
}

// watch has nodes say who leaves, from now on; once.
func (h *Hub) watch(out []outgoing) []outgoing {
	if h.watching || h.closed {
		return out
	}
	h.watching = true
	all := make([]int, h.numNodes)
	for i := range all {
		all[i] = i
	}
	return append(out, outgoing{all, &Message{Kind: Watch}})
}
