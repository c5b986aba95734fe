package comm

import (
	"context"
	"fmt"
	"unsafe"
)

// memory is an allocation of a back end.
type memory interface {
	Bytes() []byte
	Free(ctx context.Context) error
}

// Shared is memory of this rank that the other ranks on its host map too. A collective copies nothing in between if all
// its buffers lie in shared memory. This is faster from about 1 KiB upwards.
type Shared[T Number] struct {
	Data   []T
	memory memory
	group  *Group
}

// maxElements is more than any address space holds; the bytes of the ranks of a host are still an int.
const maxElements = 1 << 47

// Allocate allocates n zeroed elements of shared memory on each rank. Every rank of the group must call it with the
// same n. The memory is valid until Free or the group's Close. A group can hold at most 256 allocations at a time.
func Allocate[T Number](ctx context.Context, g *Group, n int) (*Shared[T], error) {
	if n < 0 || n > maxElements {
		return nil, &ArgumentError{"Allocate", fmt.Sprintf("%d elements", n)}
	}
	return allocateFor[T](ctx, g, "Allocate", n)
}

// allocateFor implements Allocate; caller is the function that error messages name.
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

// Free releases the memory. Every rank of the group must call it. No rank may access Data afterwards.
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
