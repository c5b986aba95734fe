//go:build cgo

// Package nvml asks NVIDIA's management library for what only it knows of the
// GPUs: memory, NVLink, peer-to-peer access, MIG, and who uses them now.
//
// The library comes with the driver and is loaded when it is first needed. Every
// answer of it is optional: without driver, in a container that may not ask, or
// with a GPU that fell off the bus, what sysfs told stays, with a note. Programs
// that are built without cgo have the package too; there it knows nothing.
//
// The library may hang or crash, and the program with it: package worker asks it
// in a process of its own, whose program links this package.
package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gorun/placement/gpufacts"
)

// Linked says whether this program can ask NVIDIA's library at all.
const Linked = true

// Ask asks NVIDIA's library what it knows of this machine's GPUs, and notes where
// it fails. It takes seconds where no process holds the driver open and its
// persistence mode is off.
func Ask() gpufacts.Facts { return askLibrary(nvml.New()) }

// library is what was told of all GPUs.
type library struct {
	nvml.Interface
	have map[string]bool // functions that were looked up
	told gpufacts.Facts
}

// has looks a function up. One that an older driver lacks must not be called: the
// dynamic linker ends the program then.
func (l *library) has(function string) bool {
	known, asked := l.have[function]
	if !asked {
		known = l.Extensions().LookupSymbol(function) == nil
		l.have[function] = known
	}
	return known
}

func (l *library) note(format string, args ...any) {
	l.told.Notes = append(l.told.Notes, fmt.Sprintf(format, args...))
}

// errorOf says what is wrong with the answer of a function; nothing is where this
// GPU, driver or container just does not answer.
func errorOf(function string, ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND,
		nvml.ERROR_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NO_DATA, nvml.ERROR_DEPRECATED,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return nil
	}
	return fmt.Errorf("%s: %s", function, ret.String())
}

func askLibrary(lib nvml.Interface) gpufacts.Facts {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return gpufacts.Facts{Error: "libnvidia-ml.so.1 is not found"}
	default:
		return gpufacts.Facts{Error: fmt.Sprintf("nvmlInit: %s", ret.String())}
	}
	defer lib.Shutdown()
	l := &library{Interface: lib, have: map[string]bool{}}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		err := errorOf("nvmlDeviceGetCount", ret)
		if err == nil {
			err = errors.New("not told")
		}
		l.note("NVIDIA's library does not tell how many GPUs there are: %v", err)
		return l.told
	}
	if l.has("nvmlSystemGetCudaDriverVersion") {
		if version, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			l.told.CUDA = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
		}
	}
	gpus := l.find(n)
	for _, d := range gpus {
		d.describe()
	}
	for _, d := range gpus {
		for _, other := range gpus {
			if d != other && !other.told.Failed {
				d.askPeer(other)
			}
		}
	}
	for _, d := range gpus {
		l.told.GPUs = append(l.told.GPUs, *d.told)
	}
	return l.told
}

// find asks for the GPUs and their addresses, without which nothing can be said of them.
func (l *library) find(n int) (gpus []*device) {
	for i := range n {
		failed := "nvmlDeviceGetHandleByIndex"
		handle, ret := l.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS {
			var info nvml.PciInfo
			failed = "nvmlDeviceGetPciInfo"
			if info, ret = handle.GetPciInfo(); ret == nvml.SUCCESS {
				gpus = append(gpus, &device{handle, l, &gpufacts.GPU{PCI: address(info)}})
				continue
			}
		}
		l.note("NVIDIA's library does not tell of its GPU %d: %s: %s", i, failed, ret.String())
	}
	return gpus
}

// address spells a PCI address as the kernel does; the library's own text has
// other digits.
func address(info nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
}
