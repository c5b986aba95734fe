package agent

import (
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// newPlane is this node's end of the exchange plane, for the attempt that is about to
// start. It becomes j.plane before the head can answer anything: in Agent.start, before
// a.job is set.
func (j *job) newPlane(node int) *exchange.Node {
	link, attempt := j.agent.link, j.start.Attempt
	return exchange.NewNode(node, func(m *exchange.Message) error {
		return link.Send(&wire.Exchange{Attempt: attempt, Message: *m})
	})
}

// exchange takes what the head's side of the plane says. What is left of an older attempt
// is nobody's.
func (a *Agent) exchange(m wire.Exchange) error {
	if j := a.job; j != nil && j.plane != nil && j.start.Attempt == m.Attempt {
		j.mpi.startServers()
		j.plane.Receive(&m.Message)
	}
	return nil
}

// closePlane fails what is still under way, since this node's part of the job is over.
func (j *job) closePlane() {
	if j.plane != nil {
		j.plane.Close(nil)
	}
}
