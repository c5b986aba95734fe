package comm

import (
	"context"
	"fmt"
	"unsafe"
)

// memory is a piece of memory that a back end gave.
type memory interface {
	Bytes() []byte
	Free(ctx context.Context) error
}

// Shared is memory of this rank that the other ranks of its host see, too: a collective whose buffers all lie in such
// memory copies nothing in between. From about 1 KiB on that pays.
type Shared[T Number] struct {
	Data   []T
	memory memory
	group  *Group
}

// Allocate makes n elements of shared memory at each rank, all zero. Every rank of the group calls it, with the same n.
// The memory is there until Free or the group's Close. A group can have 256 such pieces at a time.
func Allocate[T Number](ctx context.Context, g *Group, n int) (*Shared[T], error) {
	if n < 0 {
		return nil, &ArgumentError{"Allocate", fmt.Sprintf("%d elements", n)}
	}
	return allocateFor[T](ctx, g, "Allocate", n)
}

// allocateFor is Allocate for what the user called.
func allocateFor[T Number](ctx context.Context, g *Group, caller string, n int) (*Shared[T], error) {
	if g == nil {
		return nil, noGroup(caller)
	}
	g.wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return nil, err
	}
	var zero T
	memory, err := g.allocate(ctx, caller, max(n, 1)*int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, g.ended(err)
	}
	data := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory.Bytes()))), n)
	return &Shared[T]{data, memory, g}, nil
}

// Free gives the memory back. Every rank of the group calls it, and nobody may touch the data after it.
func (s *Shared[T]) Free(ctx context.Context) error {
	g := s.group
	g.wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil || s.memory == nil {
		return err
	}
	err := g.ended(s.memory.Free(ctx))
	s.Data, s.memory = nil, nil
	return err
}
