package exchange

import "slices"

// refusedFence is one for which there was no room. All of its nodes hear that, each when it
// comes, as often as another one has: fences of one name follow each other, each of which
// would be missing a node.
type refusedFence struct {
	id    string
	nodes []int
	told  []int // how often, by index of nodes
	err   error
	owner int // on whose account it is
}

// concerns reports whether a node has to hear that a fence was refused: another one has
// heard so more often, or would meet in the next one those who have not heard it yet.
func (r *refusedFence) concerns(node int) bool { return r != nil && slices.Contains(r.nodes, node) }

// cost is what is kept of it, in bytes.
func (r *refusedFence) cost() int {
	const itself = 128
	return itself + len(r.id) + 16*len(r.nodes)
}

func (h *Hub) refuse(node int, id string, err error) { h.send([]int{node}, failed(id, err)) }

// refuseAll ends a fence since a node's part in it is not taken: for those who have come,
// for that node, and for those who are to come. A node with too many even of these is one
// that comes to no fence any more.
func (h *Hub) refuseAll(f *hubFence, node int, err error) {
	h.fail(f, err)
	h.refuse(node, f.id, err)
	r := &refusedFence{id: f.id, nodes: f.nodes, told: make([]int, len(f.nodes)), err: err, owner: node}
	for at, came := range f.came {
		if came || f.nodes[at] == node {
			r.told[at] = 1
		}
	}
	switch {
	case r.isOver():
	case h.keep(account{node, Failed}, r.cost()):
		h.refused[r.id] = r
	case h.absent[node] == nil && h.overfull[node] == nil: // from now on fences that wait for it fail
		h.overfull[node] = err
		h.failAll(node, err)
	}
}

// heard notes that a node has heard, or does not wait to.
func (h *Hub) heard(node int, r *refusedFence) {
	r.told[slices.Index(r.nodes, node)]++
	if r.isOver() {
		delete(h.refused, r.id)
		h.letGo(account{r.owner, Failed}, r.cost())
	}
}

// isOver reports whether all have heard the same.
func (r *refusedFence) isOver() bool { return slices.Min(r.told) == slices.Max(r.told) }

// quitRefused hears that a node will not come to a fence which was refused.
func (h *Hub) quitRefused(node int, m *Message) {
	if r := h.refused[m.ID]; r.concerns(node) && !m.Came && r.told[slices.Index(r.nodes, node)] < slices.Max(r.told) {
		h.heard(node, r)
	}
}
