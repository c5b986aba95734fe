package wire

import (
	"crypto/sha256"
	"sync"

	"gorun/placement"
)

// Interner has what several nodes say of themselves stand in memory once: the nodes of a
// cluster are built alike, and the description of a large one takes 50 KiB.
type Interner struct {
	mu         sync.Mutex
	topologies map[[sha256.Size]byte]*placement.Topology
	buses      map[[sha256.Size]byte]*placement.Bus
}

// Intern replaces parts of what a node said by equal ones of nodes before it. They must not be
// changed any more.
func (s *Interner) Intern(f *Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share(&s.topologies, &f.Machine.Topology)
	for i := range f.Machine.GPUs {
		share(&s.buses, &f.Machine.GPUs[i].Bus)
	}
	for i := range f.RDMA {
		share(&s.buses, &f.RDMA[i].Bus)
	}
}

func share[T any](known *map[[sha256.Size]byte]*T, p **T) {
	if *p == nil {
		return
	}
	sum := sha256.Sum256(appendMessage(nil, *p))
	if *known == nil {
		*known = make(map[[sha256.Size]byte]*T)
	}
	if v, is := (*known)[sum]; is {
		*p = v
		return
	}
	(*known)[sum] = *p
}
