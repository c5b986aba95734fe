//go:build cgo

// Package nvml queries NVIDIA's management library for GPU facts that the kernel does not report. They
// are memory, NVLink, peer-to-peer access, MIG, and current processes.
//
// The library comes with the driver and is loaded on first use. All its results are optional. If the
// library fails, the facts from sysfs are unchanged, and a note explains the failure. Possible causes
// are a missing driver, a container without permission, or a GPU that fell off the bus. In programs
// built without cgo, the package compiles but returns no facts.
//
// The library may hang or crash, and take the program down. Therefore package worker queries it in a
// separate process, whose program links this package.
package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gorun/placement/gpufacts"
)

// Linked reports whether this program can query NVIDIA's library.
const Linked = true

// Ask queries the facts about this machine's GPUs, and notes failures. It takes seconds if no process
// holds the driver open and persistence mode is off.
func Ask() gpufacts.Facts { return askLibrary(nvml.New()) }

// library holds the library and the facts about all GPUs.
type library struct {
	nvml.Interface
	have  map[string]bool // results of symbol lookups
	facts gpufacts.Facts
}

// has reports whether the library has a function. The caller must not call a missing function of an
// older driver, because the dynamic linker would exit the program.
func (l *library) has(function string) bool {
	known, asked := l.have[function]
	if !asked {
		known = l.Extensions().LookupSymbol(function) == nil
		l.have[function] = known
	}
	return known
}

func (l *library) note(format string, args ...any) {
	l.facts.Notes = append(l.facts.Notes, fmt.Sprintf(format, args...))
}

// errorOf describes the failure of a function. The result is empty if this GPU, driver or container
// just does not support the query.
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
		return gpufacts.Facts{Error: "cannot find libnvidia-ml.so.1"}
	default:
		return gpufacts.Facts{Error: fmt.Sprintf("nvmlInit: %s", ret.String())}
	}
	defer lib.Shutdown()
	l := &library{Interface: lib, have: map[string]bool{}}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		err := errorOf("nvmlDeviceGetCount", ret)
		if err == nil {
			err = errors.New("unknown")
		}
		l.note("NVIDIA's library does not report the number of GPUs: %v", err)
		return l.facts
	}
	if l.has("nvmlSystemGetCudaDriverVersion") {
		if version, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			l.facts.CUDA = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
		}
	}
	gpus := l.find(n)
	for _, d := range gpus {
		d.describe()
	}
	for _, d := range gpus {
		for _, other := range gpus {
			if d != other && !other.facts.Failed {
				d.askPeer(other)
			}
		}
	}
	for _, d := range gpus {
		l.facts.GPUs = append(l.facts.GPUs, *d.facts)
	}
	return l.facts
}

// find queries the GPUs and their addresses. All other facts depend on them.
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
		l.note("NVIDIA's library does not describe its GPU %d: %s: %s", i, failed, ret.String())
	}
	return gpus
}

// address formats a PCI address like the kernel. The library's own format has a different number of
// digits.
func address(info nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
}
