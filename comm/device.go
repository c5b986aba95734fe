package comm

import (
	"fmt"
	"unsafe"
)

// DeviceBuffer is memory on this rank's GPU, in a group with the nccl back end. Pass its Span to a collective as a
// slice:
//
//	b, err := comm.NewDeviceBuffer[float32](g, 1<<20)
//	err = b.CopyIn(gradients)
//	err = comm.AllReduce(ctx, g, b.Span(), b.Span(), comm.Avg)
//	err = b.CopyOut(gradients)
//
// Collectives of such a group also accept slices in host memory, which every call copies to the GPU and back.
type DeviceBuffer[T Number] struct {
	n      int
	memory deviceMemory
}

type deviceMemory interface {
	Pointer() unsafe.Pointer
	CopyIn(from unsafe.Pointer, bytes int) error
	CopyOut(to unsafe.Pointer, bytes int) error
	Free() error
}

// NewDeviceBuffer allocates n elements on this rank's GPU. Their values are undefined. Other back ends than nccl return
// an error.
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

// Len returns the number of elements.
func (b *DeviceBuffer[T]) Len() int { return b.n }

// Span returns the buffer as a slice to pass to collectives. Its elements are on the GPU: the program crashes if it
// reads or writes one.
func (b *DeviceBuffer[T]) Span() []T { return unsafe.Slice((*T)(b.memory.Pointer()), b.n) }

// CopyIn copies from, in host memory, to the start of the buffer and blocks until the copy is done.
func (b *DeviceBuffer[T]) CopyIn(from []T) error {
	if len(from) > b.n {
		return &ArgumentError{"DeviceBuffer.CopyIn", fmt.Sprintf("%d elements into a buffer of %d", len(from), b.n)}
	}
	return b.memory.CopyIn(pointer(from), len(from)*dtypeOf[T]().Size())
}

// CopyOut copies the start of the buffer to host memory until to is full.
func (b *DeviceBuffer[T]) CopyOut(to []T) error {
	if len(to) > b.n {
		return &ArgumentError{"DeviceBuffer.CopyOut", fmt.Sprintf("%d elements from a buffer of %d", len(to), b.n)}
	}
	return b.memory.CopyOut(pointer(to), len(to)*dtypeOf[T]().Size())
}

// Free releases the memory. No call may use the buffer at that time or later.
func (b *DeviceBuffer[T]) Free() error { return b.memory.Free() }
