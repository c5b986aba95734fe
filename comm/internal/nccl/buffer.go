//go:build cgo

package nccl

// #include "library.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// DeviceBuffer is memory on one GPU. Its methods block until they are done. Run only one of them at a time, and none
// during a call that uses the memory.
type DeviceBuffer struct {
	library *Library
	device  int
	at      unsafe.Pointer
	bytes   int
}

// Alloc allocates memory on a GPU, with undefined contents. An allocation of 0 bytes has no address.
func (l *Library) Alloc(device, bytes int) (*DeviceBuffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("allocate %d bytes on GPU %d: the number is negative", bytes, device)
	}
	b := &DeviceBuffer{library: l, device: device, bytes: bytes}
	if bytes == 0 {
		return b, nil
	}
	if err := l.gpus.failure(C.gorun_alloc(l.gpus.table, C.int(device), &b.at, C.size_t(bytes))); err != nil {
		return nil, fmt.Errorf("allocate %d bytes on GPU %d: %w", bytes, device, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffers.add(allocation{uintptr(b.at), uintptr(bytes), device})
	return b, nil
}

// Pointer returns the memory's address for use in a call; nil for 0 bytes and after Free. Go code must not read or
// write there.
func (b *DeviceBuffer) Pointer() unsafe.Pointer { return b.at }

// Free releases the memory. A second call does nothing.
func (b *DeviceBuffer) Free() error {
	if b.at == nil {
		return nil
	}
	l, at := b.library, b.at
	b.at, b.bytes = nil, 0
	l.mu.Lock()
	l.buffers.remove(uintptr(at))
	l.mu.Unlock()
	if err := l.gpus.failure(C.gorun_free(l.gpus.table, C.int(b.device), at)); err != nil {
		return fmt.Errorf("free memory of GPU %d: %w", b.device, err)
	}
	return nil
}

// CopyIn copies bytes from host memory, such as a Go slice, to the start of the buffer.
func (b *DeviceBuffer) CopyIn(from unsafe.Pointer, bytes int) error {
	return b.copy("to", from, bytes, C.GORUN_TO_DEVICE)
}

// CopyOut copies bytes from the start of the buffer to host memory.
func (b *DeviceBuffer) CopyOut(to unsafe.Pointer, bytes int) error {
	return b.copy("from", to, bytes, C.GORUN_TO_HOST)
}

func (b *DeviceBuffer) copy(direction string, host unsafe.Pointer, bytes int, kind C.int) error {
	if bytes > b.bytes { // also true after Free
		return fmt.Errorf("copy %d bytes %s offset 0 of a device buffer of %d: out of range", bytes, direction, b.bytes)
	}
	if bytes == 0 {
		return nil
	}
	stream, err := b.library.stream(b.device)
	if err != nil {
		return err
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(host)
	target, source := uintptr(b.at), uintptr(host)
	if kind == C.GORUN_TO_HOST {
		target, source = source, target
	}
	status := C.gorun_copy(b.library.gpus.table, C.int(b.device), stream, C.uintptr_t(target), C.uintptr_t(source),
		C.size_t(bytes), kind, 1)
	if err := b.library.gpus.failure(status); err != nil {
		return fmt.Errorf("copy %d bytes %s GPU %d: %w", bytes, direction, b.device, err)
	}
	return nil
}

// stream returns the stream for copies on a GPU. It exists until the process ends.
func (l *Library) stream(device int) (unsafe.Pointer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.streams[device]; at != nil {
		return at, nil
	}
	var at unsafe.Pointer
	if err := l.gpus.failure(C.gorun_stream(l.gpus.table, C.int(device), &at)); err != nil {
		return nil, fmt.Errorf("make a stream on GPU %d: %w", device, err)
	}
	l.streams[device] = at
	return at, nil
}

// lies reports whether at is in GPU memory, which is always part of a DeviceBuffer.
func (l *Library) lies(at unsafe.Pointer) (bytes uintptr, device int, onGPU bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffers.room(uintptr(at))
}
