//go:build cgo

package nccl

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// oldest is the first version with non-blocking communicators. Without them, a rank that waits for a dead rank cannot
// be stopped.
var oldest = version{2, 14, 0}

// versionOf parses the number from ncclGetVersion: 2708 is 2.7.8; since 2.9, 21403 is 2.14.3.
func versionOf(code int) version {
	if code < 10_000 {
		return version{code / 1000, code / 100 % 10, code % 100}
	}
	return version{code / 10_000, code / 100 % 100, code % 100}
}

// room is the size of a buffer for a path or for an error of the loader.
const room = 4096

// collectives is an open libnccl or librccl. It stays open until the process ends.
type collectives struct {
	table   *C.struct_gorun_nccl
	file    string
	version version
}

// gpus is an open CUDA or HIP runtime.
type gpus struct {
	table  *C.struct_gorun_runtime
	file   string
	family family
}

// Library is a collectives library with its GPU runtime. It is safe for concurrent use.
type Library struct {
	nccl collectives
	gpus gpus

	mu      sync.Mutex
	buffers memory
	streams map[int]unsafe.Pointer // the stream for copies on each device
}

// Open finds and opens the libraries, NVIDIA's first. It needs no GPU. It returns a *MissingError, or describes the
// defect of a library that it found.
func Open() (*Library, error) {
	where := libraryEnvironment()
	sites := where.sitePackages()
	tried := &MissingError{Library: "libnccl.so.2 or librccl.so.1", Variable: VarNCCL}
	var reason error // the first that is more specific than tried
	for _, f := range families {
		if !f.mayBe(where.nccl) {
			continue
		}
		l, err := f.load(where, sites, tried)
		if l != nil {
			return l, nil
		}
		reason = cmp.Or(reason, err)
	}
	return nil, cmp.Or(reason, error(tried))
}

// load opens the libraries of one family. If it returns neither a library nor an error, it has added the reason to
// tried.
func (f family) load(where surroundings, sites []string, tried *MissingError) (*Library, error) {
	var reason error
	for _, path := range candidates(where.nccl, []string{f.library}, f.libraryBelow, f.system, sites) {
		found, err := openCollectives(path, tried)
		if found == nil {
			reason = cmp.Or(reason, err)
			continue
		}
		g, err := loadRuntime(f, where.runtime, sites)
		if err != nil {
			return nil, err
		}
		return &Library{nccl: *found, gpus: g, streams: map[int]unsafe.Pointer{}}, nil
	}
	return nil, reason
}

// openCollectives opens one file. If it returns neither a result nor an error, it has added the reason to tried.
func openCollectives(path string, tried *MissingError) (*collectives, error) {
	table := (*C.struct_gorun_nccl)(C.calloc(1, C.sizeof_struct_gorun_nccl))
	file, why := opened(path, func(path, file, why *C.char) C.int {
		return C.gorun_open_nccl(path, table, file, why, room)
	})
	if why != "" {
		C.free(unsafe.Pointer(table))
		tried.Tried = append(tried.Tried, why)
		return nil, nil
	}
	c := &collectives{table, file, versionOf(int(C.gorun_version(table)))}
	if c.version == (version{}) {
		return nil, fmt.Errorf("%s does not tell its version: it is no libnccl", file)
	}
	if slices.Compare(c.version[:], oldest[:]) < 0 {
		return nil, fmt.Errorf("%s is NCCL %v: comm needs %v or later; %s can name another file", file, c.version, oldest,
			VarNCCL)
	}
	if table.missing != nil {
		return nil, fmt.Errorf("%s (NCCL %v) lacks the function %s; %s can name another file", file, c.version,
			C.GoString(table.missing), VarNCCL)
	}
	return c, nil
}

// opened calls a C function that opens a file.
func opened(path string, open func(path, file, why *C.char) C.int) (file, why string) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	texts := C.calloc(2, room)
	defer C.free(texts)
	at, reason := (*C.char)(texts), (*C.char)(unsafe.Add(texts, room))
	if open(name, at, reason) == 0 {
		return C.GoString(at), ""
	}
	why = C.GoString(reason)
	if why == path+": cannot open shared object file: No such file or directory" {
		return "", path // the path alone shows that the file is missing
	}
	if !strings.Contains(why, path) {
		why = path + ": " + why
	}
	return "", why
}

// loadRuntime returns the first runtime that detects a GPU, otherwise the first one. A process may find runtimes of
// several releases, and the newest can be too new for the driver.
func loadRuntime(f family, named string, sites []string) (gpus, error) {
	short, _, _ := strings.Cut(f.runtimes[0], ".")
	missing := &MissingError{Library: short, Variable: VarRuntime}
	var without *gpus
	var broken error // the error of the first that exists but is unusable
	for _, path := range candidates(named, f.runtimes, f.runtimeBelow, f.system, sites) {
		g, err := openRuntime(f, path, missing)
		if err != nil {
			broken = cmp.Or(broken, err)
			continue
		}
		if g == nil {
			continue
		}
		if _, err := g.devices(); err == nil {
			return *g, nil
		}
		if without == nil {
			without = g
		}
	}
	if without != nil {
		return *without, nil
	}
	return gpus{}, cmp.Or(broken, error(missing))
}

func openRuntime(f family, path string, missing *MissingError) (*gpus, error) {
	table := (*C.struct_gorun_runtime)(C.calloc(1, C.sizeof_struct_gorun_runtime))
	prefix := C.CString(f.prefix)
	defer C.free(unsafe.Pointer(prefix))
	file, why := opened(path, func(path, file, why *C.char) C.int {
		return C.gorun_open_runtime(path, prefix, table, file, why, room)
	})
	if why != "" {
		C.free(unsafe.Pointer(table))
		missing.Tried = append(missing.Tried, why)
		return nil, nil
	}
	if table.missing != nil {
		return nil, fmt.Errorf("%s lacks the function %s%s; %s can name another file", file, f.prefix,
			C.GoString(table.missing), VarRuntime)
	}
	return &gpus{table, file, f}, nil
}

// Devices returns the number of GPUs that the runtime detects. It returns an error with the reason if none exist.
func (l *Library) Devices() (int, error) { return l.gpus.devices() }

func (g *gpus) devices() (int, error) {
	var count, driver C.int
	err := g.failure(C.gorun_device_count(g.table, &count, &driver))
	switch {
	case driver == 0:
		reason := "it reports driver version 0"
		if err != nil {
			reason = err.Error()
		}
		return 0, fmt.Errorf("no %s driver: %s: %s", g.family.vendor, g.file, reason)
	case err != nil:
		return 0, fmt.Errorf("no GPU: %s: %w", g.file, err)
	case count == 0:
		return 0, fmt.Errorf("no GPU: %s sees none; CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES may hide them", g.file)
	}
	return int(count), nil
}

// failure converts a status of the runtime to an error.
func (g *gpus) failure(s C.struct_gorun_status) error {
	if s.function == nil {
		return nil
	}
	text := C.GoString(C.gorun_runtime_text(g.table, s.code))
	return fmt.Errorf("%s%s: %s (%d)", g.family.prefix, C.GoString(s.function), text, int(s.code))
}

// failure converts a status of either library to an error. comm can be nil.
func (l *Library) failure(s C.struct_gorun_status, comm unsafe.Pointer) error {
	if s.function == nil || s.of_nccl == 0 {
		return l.gpus.failure(s)
	}
	function := C.GoString(s.function)
	if function == "ncclCommGetAsyncError" {
		function = strings.ToUpper(l.gpus.family.name) + " failed on the way"
	}
	text := fmt.Sprintf("%s: %s (%d)", function, C.GoString(C.gorun_nccl_text(l.nccl.table, s.code)), int(s.code))
	if last := strings.TrimSpace(C.GoString(C.gorun_nccl_last(l.nccl.table, comm))); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// uniqueID creates a unique id, which ranks need to join.
func (l *Library) uniqueID() (id [idBytes]byte, err error) {
	code := C.gorun_unique_id(l.nccl.table, (*C.struct_gorun_id)(unsafe.Pointer(&id)))
	if code == 0 {
		return id, nil
	}
	name := C.CString("ncclGetUniqueId")
	defer C.free(unsafe.Pointer(name))
	return id, l.failure(C.struct_gorun_status{function: name, code: code, of_nccl: 1}, nil)
}
