package launcher

import (
	"slices"

	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// exchangeHub is the middle of the exchange plane, for one attempt.
type exchangeHub struct {
	*exchange.Hub
	names   *exchange.Names
	attempt int
	hasProc func(n *node, p world.Proc) bool
}

func newExchangeHub(attempt int, nodes []*node, has func(*node, world.Proc) bool) *exchangeHub {
	// A message is encoded once. Links queue what is written to them: a node that is slow, or lost, holds up nobody.
	hub := exchange.NewHub(len(nodes), func(to []int, m *exchange.Message) {
		frame, err := wire.Encode(&wire.Exchange{Attempt: attempt, Message: *m})
		if err != nil { // the hub passes on no more than a frame has room for
			return
		}
		for _, number := range to {
			_ = nodes[number].link.SendEncoded(frame) // of one that is lost its reader knows
		}
	})
	return &exchangeHub{hub, exchange.ServeNames(hub), attempt, has}
}

// receive takes what a node says.
func (x *exchangeHub) onExchange(n *node, m wire.Exchange) error {
	if m.Attempt != x.attempt {
		return nil
	}
	if m.Message.Kind == exchange.Exited { // a node knows of its own ranks
		m.Message.Members = slices.DeleteFunc(m.Message.Members, func(p world.Proc) bool { return !x.hasProc(n, p) })
	}
	x.Receive(n.number, &m.Message)
	return nil
}

// close ends it with the attempt.
func (x *exchangeHub) close() {
	x.names.Close()
	x.Close()
}
