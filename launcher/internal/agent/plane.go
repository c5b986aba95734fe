package agent

import (
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// newPlane returns this node's end of the exchange between nodes, for an attempt.
func (j *job) newPlane(node int) *exchange.Node {
	link, attempt := j.agent.link, j.start.Attempt
	return exchange.NewNode(node, func(m *exchange.Message) error {
		return link.Send(&wire.Exchange{Attempt: attempt, Message: *m})
	})
}

// exchange handles an Exchange frame. It ignores those of an older attempt.
func (a *Agent) exchange(m wire.Exchange) error {
	if j := a.job; j != nil && j.plane != nil && j.start.Attempt == m.Attempt {
		j.mpi.startServers()
		j.plane.Receive(&m.Message)
	}
	return nil
}

// closePlane fails pending exchanges.
func (j *job) closePlane() {
	if j.plane != nil {
		j.plane.Close(nil)
	}
}
