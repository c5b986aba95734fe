package launcher

import (
	"slices"
	"sync"

	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// exchangeHub is the middle of the exchange plane, for one attempt. There is nothing of it
// until a node says something.
type exchangeHub struct {
	attempt int
	nodes   []*node
	has     func(n *node, p world.Proc) bool

	mu     sync.Mutex // held while the hub is made, which may send
	hub    *exchange.Hub
	names  *exchange.Names
	closed bool
	// lost are nodes whose links broke, gone those whose part of the job is over, with
	// the ranks that they had: a hub that is made later hears of them then.
	lost []int
	gone []goneNode

	starts sync.Mutex       // guards what follows
	begun  []bool           // nodes that were told to start their ranks
	early  map[int][][]byte // frames for those that were not yet
}

// goneNode is a node whose ranks have all ended.
type goneNode struct {
	number int
	ranks  []world.Proc
}

func newExchangeHub(attempt int, nodes []*node) *exchangeHub {
	anyone := func(*node, world.Proc) bool { return true }
	return &exchangeHub{attempt: attempt, nodes: nodes, has: anyone, begun: make([]bool, len(nodes))}
}

// receive takes what a node says.
func (x *exchangeHub) receive(n *node, m *wire.Exchange) {
	if m.Attempt != x.attempt {
		return
	}
	if m.Message.Kind == exchange.Left { // a node knows of its own ranks
		m.Message.Members = slices.DeleteFunc(m.Message.Members, func(p world.Proc) bool { return !x.has(n, p) })
	}
	if hub := x.open(); hub != nil {
		hub.Receive(n.number, &m.Message)
	}
}

// open makes the hub, unless it was or all is over.
func (x *exchangeHub) open() *exchange.Hub {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hub == nil && !x.closed {
		x.hub = exchange.NewHub(len(x.nodes), x.send)
		x.names = exchange.ServeNames(x.hub)
		for _, n := range x.gone {
			x.hub.NodeGone(n.number, n.ranks)
		}
		for _, number := range x.lost {
			x.hub.NodeLost(number)
		}
	}
	return x.hub
}

// send tells nodes something, which is encoded once. Links queue what is written to them:
// a node that is slow, or lost, holds up nobody.
func (x *exchangeHub) send(to []int, m *exchange.Message) {
	frame, err := wire.Encode(&wire.Exchange{Attempt: x.attempt, Message: *m})
	if err != nil { // the hub passes on no more than a frame has room for
		return
	}
	for _, number := range to {
		if !x.keepIfEarly(number, frame) {
			_ = x.nodes[number].link.SendEncoded(frame) // of one that is lost its reader knows
		}
	}
}

// keepIfEarly keeps a frame for a node that was not told to start its ranks, until it is, and
// reports whether it did: before that the node has nobody to take it.
func (x *exchangeHub) keepIfEarly(number int, frame []byte) bool {
	x.starts.Lock()
	defer x.starts.Unlock()
	if x.begun[number] {
		return false
	}
	if x.early == nil {
		x.early = map[int][][]byte{}
	}
	x.early[number] = append(x.early[number], frame)
	return true
}

// begin hears that a node was told to start its ranks.
func (x *exchangeHub) begin(n *node) {
	x.starts.Lock()
	defer x.starts.Unlock()
	for _, frame := range x.early[n.number] {
		_ = n.link.SendEncoded(frame)
	}
	delete(x.early, n.number)
	x.begun[n.number] = true
}

// nodeLost hears that nothing more comes from a node.
func (x *exchangeHub) nodeLost(n *node) {
	x.mu.Lock()
	hub := x.hub
	if !slices.Contains(x.lost, n.number) {
		x.lost = append(x.lost, n.number)
	}
	x.mu.Unlock()
	if hub != nil {
		hub.NodeLost(n.number)
	}
}

// nodeGone hears that a node's part of the job is over. Whoever waits there for one of its
// ranks, now or later, waits in vain: the node's own end of the plane is closed, and has told
// of none of them if nobody had wished to know by then.
func (x *exchangeHub) nodeGone(n *node, ranks []world.Proc) {
	x.mu.Lock()
	hub := x.hub
	x.gone = append(x.gone, goneNode{n.number, ranks})
	x.mu.Unlock()
	if hub != nil {
		hub.NodeGone(n.number, ranks)
	}
}

// close ends it with the attempt.
func (x *exchangeHub) close() {
	x.mu.Lock()
	hub, names := x.hub, x.names
	x.hub, x.names, x.closed = nil, nil, true
	x.mu.Unlock()
	if hub != nil {
		names.Close()
		hub.Close()
	}
}
