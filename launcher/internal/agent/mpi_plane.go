package agent

import (
	"errors"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// alone is the plane of a job's only node.
type alone struct {
	services map[string]func(int, []byte, func([]byte, error))
}

func (a *Agent) newPlane(*mpi) exchange.Plane {
	return &alone{map[string]func(int, []byte, func([]byte, error)){}}
}

func (*alone) Node() int { return 0 }

func (*alone) Fence(f exchange.Fence, done func([][]byte, error)) { go done([][]byte{f.Blob}, nil) }

func (*alone) Leave(world.Proc) {}

func (*alone) Ask(_ int, _ string, _ []byte, done func([]byte, error)) {
	go done(nil, errors.New("not yet"))
}

func (p *alone) Serve(service string, answer func(int, []byte, func([]byte, error))) {
	p.services[service] = answer
}
