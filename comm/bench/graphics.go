package bench

import (
	"context"
	"unsafe"

	"gorun/comm"
)

// graphics are vectors whose calls work on the GPU's memory. The host's, of which inputs and outputs are written and
// checked, is copied there and back outside of what is timed.
type graphics[T comm.Number] struct {
	*typed[T]
	one, two *comm.DeviceBuffer[T]
	failed   error // of a copy; the next call returns it
}

// onGPU moves the vectors to the GPU of the group's rank.
func onGPU[T comm.Number](t *typed[T]) (vectors, error) {
	one, err := comm.NewDeviceBuffer[T](t.group, len(t.one))
	if err != nil {
		return nil, err
	}
	two, err := comm.NewDeviceBuffer[T](t.group, len(t.two))
	if err != nil {
		return nil, err
	}
	return &graphics[T]{typed: t, one: one, two: two}, nil
}

func (v *graphics[T]) prepare(count int, inPlace bool) {
	v.typed.prepare(count, inPlace)
	send, out := v.send, v.out
	v.send, v.out = v.span(send), v.span(out)
	v.run = v.calls()
	v.send, v.out = send, out
}

// home is where a part of the host's memory lies on the GPU.
func (v *graphics[T]) home(part []T) (host []T, device *comm.DeviceBuffer[T], offset int) {
	var element T
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	host, device = v.typed.one, v.one
	if begin := uintptr(unsafe.Pointer(unsafe.SliceData(v.typed.two))); at >= begin &&
		at < begin+uintptr(len(v.typed.two))*unsafe.Sizeof(element) {
		host, device = v.typed.two, v.two
	}
	return host, device, int((at - uintptr(unsafe.Pointer(unsafe.SliceData(host)))) / unsafe.Sizeof(element))
}

func (v *graphics[T]) span(part []T) []T {
	if len(part) == 0 {
		return nil
	}
	_, device, offset := v.home(part)
	return device.Span()[offset:][:len(part)]
}

// push copies a part, and what lies before it in its buffer, to the GPU.
func (v *graphics[T]) push(part []T) {
	if len(part) > 0 {
		host, device, offset := v.home(part)
		v.note(device.CopyIn(host[:offset+len(part)]))
	}
}

func (v *graphics[T]) pull(part []T) {
	if len(part) > 0 {
		host, device, offset := v.home(part)
		v.note(device.CopyOut(host[:offset+len(part)]))
	}
}

func (v *graphics[T]) note(err error) {
	if v.failed == nil {
		v.failed = err
	}
}

func (v *graphics[T]) fill() {
	v.typed.fill()
	v.push(v.in)
}

// touch does nothing: a GPU has no page of zeros behind memory that was never written.
func (v *graphics[T]) touch() {}

func (v *graphics[T]) spoil() {
	v.typed.spoil()
	v.push(v.out)
}

func (v *graphics[T]) call(ctx context.Context) error {
	if v.failed != nil {
		return v.failed
	}
	return v.typed.call(ctx)
}

func (v *graphics[T]) wrong() int64 {
	v.pull(v.out)
	if v.failed != nil {
		return int64(len(v.out))
	}
	return v.typed.wrong()
}
