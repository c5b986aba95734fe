package comm

import (
	"fmt"
	"unsafe"
)

// DeviceBuffer is memory of this rank's GPU, in a group whose back end is nccl. Its Span goes wherever a collective
// takes a slice:
//
//	b, err := comm.NewDeviceBuffer[float32](g, 1<<20)
//	err = b.CopyIn(gradients)
//	err = comm.AllReduce(ctx, g, b.Span(), b.Span(), comm.Avg)
//	err = b.CopyOut(gradients)
//
// Collectives also take common slices there; they are then copied to the GPU and back in every call.
type DeviceBuffer[T Number] struct {
	n      int
	memory deviceMemory
}

// deviceMemory is a piece of a GPU's memory.
type deviceMemory interface {
	Pointer() unsafe.Pointer
	CopyIn(from unsafe.Pointer, bytes int) error
	CopyOut(to unsafe.Pointer, bytes int) error
	Free() error
}

// NewDeviceBuffer allocates n elements, whose values are undefined.
func NewDeviceBuffer[T Number](g *Group, n int) (*DeviceBuffer[T], error) {
	if g == nil {
		return nil, noGroup("NewDeviceBuffer")
	}
	if n <= 0 {
		return nil, &ArgumentError{"NewDeviceBuffer", fmt.Sprintf("%d elements", n)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return nil, err
	}
	memory, err := g.onDevice(n * dtypeOf[T]().Size())
	if err != nil {
		return nil, fmt.Errorf("comm: NewDeviceBuffer: %w", err)
	}
	return &DeviceBuffer[T]{n, memory}, nil
}

// Len is the number of elements.
func (b *DeviceBuffer[T]) Len() int { return b.n }

// Span is the buffer as collectives take it. Its elements lie on the GPU: reading or writing one here ends the program.
func (b *DeviceBuffer[T]) Span() []T { return unsafe.Slice((*T)(b.memory.Pointer()), b.n) }

// CopyIn copies host memory to the beginning of the buffer and returns when it is there.
func (b *DeviceBuffer[T]) CopyIn(from []T) error {
	if len(from) > b.n {
		return &ArgumentError{"DeviceBuffer.CopyIn", fmt.Sprintf("%d elements into a buffer of %d", len(from), b.n)}
	}
	return b.memory.CopyIn(pointer(from), len(from)*dtypeOf[T]().Size())
}

// CopyOut copies the beginning of the buffer to host memory.
func (b *DeviceBuffer[T]) CopyOut(to []T) error {
	if len(to) > b.n {
		return &ArgumentError{"DeviceBuffer.CopyOut", fmt.Sprintf("%d elements from a buffer of %d", len(to), b.n)}
	}
	return b.memory.CopyOut(pointer(to), len(to)*dtypeOf[T]().Size())
}

// Free gives the memory back. The buffer may be in no call.
func (b *DeviceBuffer[T]) Free() error { return b.memory.Free() }
