//go:build cgo

package nccl

// #include "library.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gorun/comm/internal/backend"
)

// placed contains a call's buffers on the GPU and the copy to make after the call.
type placed struct {
	send, recv unsafe.Pointer
	back       unsafe.Pointer // copy results to here in host memory; nil if none
	from       unsafe.Pointer
	bytes      int
}

// place copies the call's buffers to the GPU unless they are there.
func (b *Backend) place(c *backend.Call) (p placed, err error) {
	elements, size := b.planner.extent(c), c.DType.Size()
	inPlace := b.planner.inPlace(c)
	apart := false // NCCL cannot do these in place: copy the send buffer first
	switch c.Kind {
	case backend.Barrier:
		return p, nil
	case backend.AllToAll, backend.AllToAllV, backend.SendRecv:
		apart = inPlace
	}
	if inPlace && !apart {
		whole := size * max(elements.send, elements.recv)
		at, staged, err := b.onGPU(0, c.Recv, whole, true, false)
		if staged {
			p.back, p.from, p.bytes = c.Recv, at, whole
		}
		p.send, p.recv = at, at
		return p, err
	}
	if p.send, _, err = b.onGPU(0, c.Send, size*elements.send, true, apart); err != nil {
		return p, err
	}
	given := c.Kind == backend.Broadcast && c.Root == b.config.Rank // otherwise the contents do not matter
	at, staged, err := b.onGPU(1, c.Recv, size*elements.recv, given, false)
	if staged && !given {
		p.back, p.from, p.bytes = c.Recv, at, size*elements.recv
	}
	p.recv = at
	return p, err
}

// onGPU returns the GPU address of the bytes at a place. Bytes in host memory get a stage, and so do all others if
// apart is set. It copies their contents to the stage if given is set.
func (b *Backend) onGPU(stage int, at unsafe.Pointer, bytes int, given, apart bool) (where unsafe.Pointer,
	staged bool, err error,
) {
	if bytes == 0 {
		return nil, false, nil
	}
	kind := C.int(C.GORUN_TO_DEVICE)
	if there, device, onGPU := b.library.lies(at); onGPU {
		if device != b.config.Device {
			return nil, false, fmt.Errorf("a buffer is on GPU %d, and the rank's GPU is %d", device, b.config.Device)
		}
		if there < uintptr(bytes) {
			return nil, false, fmt.Errorf("a device buffer has %d bytes from there on, and the call needs %d", there, bytes)
		}
		if !apart {
			return at, false, nil
		}
		kind = C.GORUN_ON_DEVICE
	}
	buffer, err := b.stage(stage, bytes)
	if err != nil || !given {
		return buffer, true, err
	}
	b.pinned.Pin(at)
	status := C.gorun_copy(b.library.gpus.table, b.rank.device, b.rank.stream, C.uintptr_t(uintptr(buffer)),
		C.uintptr_t(uintptr(at)), C.size_t(bytes), kind, 0)
	return buffer, true, b.library.failure(status, b.rank.comm)
}

// leastStage is the minimum size of a stage. Smaller ones would save little memory and cost more reallocations.
const leastStage = 64 << 10

// stage returns a stage of at least bytes bytes. Sizes double, so that growing calls seldom reallocate.
func (b *Backend) stage(which, bytes int) (unsafe.Pointer, error) {
	old := b.stages[which]
	if old != nil && old.bytes >= bytes {
		return old.at, nil
	}
	room := leastStage
	for room < bytes {
		room *= 2
	}
	if old != nil {
		b.stages[which] = nil
		if err := old.Free(); err != nil {
			return nil, err
		}
	}
	buffer, err := b.library.Alloc(b.config.Device, room)
	if err != nil {
		return nil, err
	}
	b.stages[which] = buffer
	return buffer.at, nil
}

// copyBack copies the results to host memory.
func (b *Backend) copyBack(p placed) error {
	if p.back == nil {
		return nil
	}
	b.pinned.Pin(p.back)
	status := C.gorun_copy(b.library.gpus.table, b.rank.device, b.rank.stream, C.uintptr_t(uintptr(p.back)),
		C.uintptr_t(uintptr(p.from)), C.size_t(p.bytes), C.GORUN_TO_HOST, 1)
	return b.library.failure(status, b.rank.comm)
}
