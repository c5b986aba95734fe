package launcher

import (
	"slices"
	"sync"

	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// exchangeHub is the middle of the exchange plane, for one attempt. There is nothing of it
// until a node says something.
type exchangeHub struct {
	attempt int
	nodes   []*node

	mu     sync.Mutex
	hub    *exchange.Hub
	names  *exchange.Names
	closed bool
	lost   []int
	begun  []bool           // nodes that were told to start their ranks
	early  map[int][][]byte // frames for those that were not yet
}

func newExchangeHub(attempt int, nodes []*node) *exchangeHub {
	return &exchangeHub{attempt: attempt, nodes: nodes, begun: make([]bool, len(nodes))}
}

// receive takes what a node says.
func (x *exchangeHub) receive(n *node, m *wire.Exchange) {
	if m.Attempt != x.attempt {
		return
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
		if !x.isEarly(number, frame) {
			_ = x.nodes[number].link.SendEncoded(frame) // of one that is lost its reader knows
		}
	}
}

// isEarly keeps a frame for a node that was not told to start its ranks: until then it has
// nobody to take it.
func (x *exchangeHub) isEarly(number int, frame []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
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
	x.mu.Lock()
	defer x.mu.Unlock()
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
