package wire

import (
	"crypto/sha256"
	"sync"

	"gorun/placement"
)

// Interner keeps equal parts of the facts of several nodes in memory once: the nodes of a cluster have the same
// hardware, and the topology of a large one takes 50 KiB. Its zero value is ready to use, by several goroutines.
type Interner struct {
	mu         sync.Mutex
	topologies map[[sha256.Size]byte]*placement.Topology
	buses      map[[sha256.Size]byte]*placement.Bus
}

// Intern replaces parts of a node's facts by equal ones of earlier calls. They must not change any more.
func (s *Interner) Intern(f *Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	intern(&s.topologies, &f.Machine.Topology)
	for i := range f.Machine.GPUs {
		intern(&s.buses, &f.Machine.GPUs[i].Bus)
	}
	for i := range f.RDMA {
		intern(&s.buses, &f.RDMA[i].Bus)
	}
}

func intern[T any](known *map[[sha256.Size]byte]*T, p **T) {
	if *p == nil {
		return
	}
	if *known == nil {
		*known = make(map[[sha256.Size]byte]*T)
	}
	sum := sha256.Sum256(appendMessage(nil, *p))
	if v, is := (*known)[sum]; is {
		*p = v
		return
	}
	(*known)[sum] = *p
}
