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
	"strings"
	"sync"
	"unsafe"
)

// oldest is the first version with non-blocking communicators, without which a rank that waits for a dead one could not
// be stopped.
var oldest = Version{2, 14, 0}

// versionOf reads ncclGetVersion's number: 2708 is 2.7.8, and since 2.9 21403 is 2.14.3.
func versionOf(code int) Version {
	if code < 10_000 {
		return Version{code / 1000, code / 100 % 10, code % 100}
	}
	return Version{code / 10_000, code / 100 % 100, code % 100}
}

// room is for a path or the loader's reason.
const room = 4096

// collectives is an opened libnccl or librccl. It stays open as long as the process lives.
type collectives struct {
	table   *C.struct_gorun_nccl
	file    string
	version Version
}

// gpus is an opened CUDA or HIP runtime.
type gpus struct {
	table  *C.struct_gorun_runtime
	file   string
	family family
}

// Library is a library of collectives and the GPU runtime that goes with it. Its methods may be called by several
// goroutines at once.
type Library struct {
	nccl collectives
	gpus gpus

	mu      sync.Mutex
	buffers memory
	streams map[int]unsafe.Pointer // for copies, by device
}

// Open finds the libraries, as Load does, and wants at least one GPU. The error says in one line why this host's GPUs
// cannot be used.
func Open(o Options) (*Library, error) {
	l, err := Load(o)
	if err != nil {
		return nil, err
	}
	if _, err := l.Devices(); err != nil {
		return nil, err
	}
	return l, nil
}

// Load finds the libraries, NVIDIA's first, without asking for a GPU. Errors: a *MissingError, or what the library that
// was found lacks.
func Load(o Options) (*Library, error) {
	where := libraryEnvironment()
	sites := where.sitePackages()
	o = Options{first(o.NCCL, where.nccl), first(o.Runtime, where.runtime)}
	tried := &MissingError{Library: "libnccl.so.2 or librccl.so.1", Variable: VarNCCL}
	var reason error // the first that says more than tried
	for _, f := range families {
		if !f.mayBe(o.NCCL) {
			continue
		}
		l, err := f.load(o, sites, tried)
		if l != nil {
			return l, nil
		}
		if reason == nil {
			reason = err
		}
	}
	if reason == nil {
		reason = tried
	}
	return nil, reason
}

// load opens one family's libraries. A nil library without an error is noted in tried.
func (f family) load(o Options, sites []string, tried *MissingError) (*Library, error) {
	var reason error
	for _, path := range candidates(o.NCCL, []string{f.library}, f.libraryBelow, f.system, sites) {
		found, err := openCollectives(path, tried)
		if found == nil {
			reason = cmp.Or(reason, err)
			continue
		}
		g, err := loadRuntime(f, o.Runtime, sites)
		if err != nil {
			return nil, err
		}
		return &Library{nccl: *found, gpus: g, streams: map[int]unsafe.Pointer{}}, nil
	}
	return nil, reason
}

// openCollectives opens one file: a nil result without an error is noted in tried.
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
	if c.version == (Version{}) {
		return nil, fmt.Errorf("%s does not tell its version: it is no libnccl", file)
	}
	if c.version.Before(oldest) {
		return nil, fmt.Errorf("%s is NCCL %v: comm needs %v or later; %s can name another file", file, c.version, oldest,
			VarNCCL)
	}
	if table.missing != nil {
		return nil, fmt.Errorf("%s (NCCL %v) lacks the function %s; %s can name another file", file, c.version,
			C.GoString(table.missing), VarNCCL)
	}
	return c, nil
}

// opened calls one of the C functions that open a file.
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
		return "", path // what else
	}
	if !strings.Contains(why, path) {
		why = path + ": " + why
	}
	return "", why
}

// loadRuntime takes the first runtime that sees a GPU, else the first at all: a process may find the runtimes of
// several releases, and the newest may be too new for the driver.
func loadRuntime(f family, named string, sites []string) (gpus, error) {
	short, _, _ := strings.Cut(f.runtimes[0], ".")
	missing := &MissingError{Library: short, Variable: VarRuntime}
	var without *gpus
	var broken error // the first that is there and of no use
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

// Devices is how many GPUs this process sees, by the first runtime that sees any. It needs no NCCL. Where there is none
// the error says why: no runtime library, no driver, no GPU that the process may use.
func Devices(o Options) (int, error) {
	where := libraryEnvironment()
	named := first(o.Runtime, where.runtime)
	var reasons []error
	for _, f := range families {
		if !f.mayBe(named) {
			continue
		}
		g, err := loadRuntime(f, named, where.sitePackages())
		if err == nil {
			var n int
			if n, err = g.devices(); err == nil {
				return n, nil
			}
		}
		reasons = append(reasons, err)
	}
	return 0, joinedReasons(reasons)
}

// joinedReasons prefers what a runtime said over runtimes that are not there.
func joinedReasons(reasons []error) error {
	var texts []string
	for _, reason := range reasons {
		var missing *MissingError
		if !errors.As(reason, &missing) {
			return reason
		}
		texts = append(texts, reason.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

// Devices is how many GPUs the library's runtime sees; none is an error that says why.
func (l *Library) Devices() (int, error) { return l.gpus.devices() }

func (g *gpus) devices() (int, error) {
	var count, driver C.int
	err := g.told(C.gorun_device_count(g.table, &count, &driver))
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

// Name is "nccl" or "rccl".
func (l *Library) Name() string { return l.gpus.family.name }

// Version is that of the library of collectives.
func (l *Library) Version() Version { return l.nccl.version }

// Path is the library's file, RuntimePath that of the GPU runtime.
func (l *Library) Path() string { return l.nccl.file }

// RuntimePath is the GPU runtime's file.
func (l *Library) RuntimePath() string { return l.gpus.file }

// ErrorText is what the library says about one of its error codes.
func (l *Library) ErrorText(code int) string {
	return C.GoString(C.gorun_nccl_text(l.nccl.table, C.int(code)))
}

// told turns the runtime's answer into an error.
func (g *gpus) told(s C.struct_gorun_status) error {
	if s.function == nil {
		return nil
	}
	text := C.GoString(C.gorun_runtime_text(g.table, s.code))
	return fmt.Errorf("%s%s: %s (%d)", g.family.prefix, C.GoString(s.function), text, int(s.code))
}

// told turns an answer of either library into an error. comm may be nil.
func (l *Library) told(s C.struct_gorun_status, comm unsafe.Pointer) error {
	if s.function == nil || s.of_nccl == 0 {
		return l.gpus.told(s)
	}
	function := C.GoString(s.function)
	if function == "ncclCommGetAsyncError" {
		function = strings.ToUpper(l.Name()) + " failed on the way"
	}
	text := fmt.Sprintf("%s: %s (%d)", function, l.ErrorText(int(s.code)), int(s.code))
	if last := strings.TrimSpace(C.GoString(C.gorun_nccl_last(l.nccl.table, comm))); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// uniqueID makes an id at which ranks meet.
func (l *Library) uniqueID() (id [idBytes]byte, err error) {
	code := C.gorun_unique_id(l.nccl.table, (*C.struct_gorun_id)(unsafe.Pointer(&id)))
	if code == 0 {
		return id, nil
	}
	name := C.CString("ncclGetUniqueId")
	defer C.free(unsafe.Pointer(name))
	return id, l.told(C.struct_gorun_status{function: name, code: code, of_nccl: 1}, nil)
}
