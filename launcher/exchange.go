package launcher

import (
	"slices"

	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// exchangeHub connects the nodes' MPI servers during one attempt.
type exchangeHub struct {
	*exchange.Hub
	names   *exchange.Names
	attempt int
	hasProc func(n *node, p world.Proc) bool
}

func newExchangeHub(attempt int, nodes []*node, has func(*node, world.Proc) bool) *exchangeHub {
	// Encode once for all nodes. Links queue writes, so a slow or lost node delays no other.
	hub := exchange.NewHub(len(nodes), func(to []int, m *exchange.Message) {
		frame, err := wire.Encode(&wire.Exchange{Attempt: attempt, Message: *m})
		if err != nil { // the hub limits messages to the size of a frame
			return
		}
		for _, number := range to {
			_ = nodes[number].link.SendEncoded(frame) // readLoop notices a lost link
		}
	})
	return &exchangeHub{hub, exchange.ServeNames(hub), attempt, has}
}

func (x *exchangeHub) onExchange(n *node, m wire.Exchange) error {
	if m.Attempt != x.attempt {
		return nil
	}
	if m.Message.Kind == exchange.Exited { // a node speaks for its own ranks only
		m.Message.Members = slices.DeleteFunc(m.Message.Members, func(p world.Proc) bool { return !x.hasProc(n, p) })
	}
	x.Receive(n.number, &m.Message)
	return nil
}

func (x *exchangeHub) close() {
	x.names.Close()
	x.Close()
}
