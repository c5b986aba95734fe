//go:build !cgo

package nccl

import (
	"context"
	"errors"
	"unsafe"

	"gorun/comm/internal/backend"
)

// errNoCgo is the answer of every function here.
var errNoCgo = errors.New(
	"this program was built without cgo, which the GPU libraries need: build it with CGO_ENABLED=1 and a C compiler")

// Library cannot be had without cgo.
type Library struct{}

// Open says that it needs cgo.
func Open(Options) (*Library, error) { return nil, errNoCgo }

// Load says that it needs cgo.
func Load(Options) (*Library, error) { return nil, errNoCgo }

// Devices says that it needs cgo.
func Devices(Options) (int, error) { return 0, errNoCgo }

// Devices says that it needs cgo.
func (*Library) Devices() (int, error) { return 0, errNoCgo }

// Name is "nccl".
func (*Library) Name() string { return "nccl" }

// Version is none.
func (*Library) Version() Version { return Version{} }

// Path is none.
func (*Library) Path() string { return "" }

// RuntimePath is none.
func (*Library) RuntimePath() string { return "" }

// ErrorText says that it needs cgo.
func (*Library) ErrorText(int) string { return errNoCgo.Error() }

// Alloc says that it needs cgo.
func (*Library) Alloc(_, _ int) (*DeviceBuffer, error) { return nil, errNoCgo }

// Join says that it needs cgo.
func (*Library) Join(context.Context, Config) (*Backend, error) { return nil, errNoCgo }

// Backend cannot be had without cgo.
type Backend struct{}

var _ backend.Backend = (*Backend)(nil)

// Name is "nccl".
func (*Backend) Name() string { return "nccl" }

// Run says that it needs cgo.
func (*Backend) Run(context.Context, *backend.Call) error { return errNoCgo }

// Abort does nothing.
func (*Backend) Abort(error) {}

// Close does nothing.
func (*Backend) Close() error { return nil }

// DeviceBuffer cannot be had without cgo.
type DeviceBuffer struct{}

// Pointer is nil.
func (*DeviceBuffer) Pointer() unsafe.Pointer { return nil }

// Len is 0.
func (*DeviceBuffer) Len() int { return 0 }

// Device is 0.
func (*DeviceBuffer) Device() int { return 0 }

// Free does nothing.
func (*DeviceBuffer) Free() error { return nil }

// CopyIn says that it needs cgo.
func (*DeviceBuffer) CopyIn(int, unsafe.Pointer, int) error { return errNoCgo }

// CopyOut says that it needs cgo.
func (*DeviceBuffer) CopyOut(unsafe.Pointer, int, int) error { return errNoCgo }

// Synchronize says that it needs cgo.
func (*DeviceBuffer) Synchronize() error { return errNoCgo }
