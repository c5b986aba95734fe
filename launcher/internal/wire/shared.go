package wire

import (
	"crypto/sha256"
	"sync"
	"unsafe"

	"gorun/placement"
)

// Shared has what several nodes say of themselves stand in memory once: the nodes of a
// cluster are built alike, and the description of a large one takes 50 KiB. What was
// read so must not be changed.
type Shared struct {
	mu         sync.Mutex
	topologies map[[sha256.Size]byte]*placement.Topology
	buses      map[[sha256.Size]byte]*placement.Bus
}

// Sharing is the message as it is read with others of its kind.
func (m *Facts) Sharing(s *Shared) Message { return &sharing{m, s} }

type sharing struct {
	*Facts
	shared *Shared
}

func (m *sharing) fields(c *coder) {
	c.shared = m.shared
	m.Facts.fields(c)
}

// shared reads the part that was just read, unless one of the same bytes was.
func shared[T any](c *coder, known *map[[sha256.Size]byte]*T, as func(*T) fielder) (*T, error) {
	s, b := c.shared, c.bytes
	sum := sha256.Sum256(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := (*known)[sum]; ok {
		return v, nil
	}
	v := new(T)
	part := coder{reading: true, room: c.room}
	if c.take(int(unsafe.Sizeof(*v))); c.err != nil {
		return nil, c.err
	}
	if err := part.read(b, as(v)); err != nil {
		return nil, err
	}
	if *known == nil {
		*known = make(map[[sha256.Size]byte]*T)
	}
	(*known)[sum] = v
	return v, nil
}
