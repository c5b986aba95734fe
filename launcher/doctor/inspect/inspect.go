// Package inspect fills in a [doctor.Host] for the host that it runs on. It reads files below one root and makes the
// system calls of [System], both of which tests replace. It changes nothing, and starts no program except for a
// Python whose packages cannot be found in files.
package inspect

import (
	"bytes"
	"context"
	"io/fs"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gorun/launcher/doctor"
	"gorun/placement"
	"gorun/placement/gpufacts"
	"gorun/placement/sysfs"
)

// System provides what is not in files.
type System interface {
	// CPUs returns the CPUs that this process may use.
	CPUs() placement.CPUSet
	// UID returns the user of this process.
	UID() (id int, name string)
	// Uname returns the kernel's release and the machine's architecture.
	Uname() (release, machine string)
	// Limits returns the limits that ranks start with, by their names in limits.conf.
	Limits() map[string]doctor.Limit
	// FileSystem describes the file system of path.
	FileSystem(path string) doctor.FileSystem
	// Hostname returns the name of this host.
	Hostname() string
	// Lookup and Reverse query the resolver.
	Lookup(ctx context.Context, name string) (addresses []string, err error)
	Reverse(ctx context.Context, address string) (names []string, err error)
	// Addresses returns the addresses by network interface: "10.0.0.7/24".
	Addresses() map[string][]string
	// Access says why this process may not read and write a file, "" if it may.
	Access(path string) string
	// Denied tries system calls without side effects, and returns the refused ones with the reasons.
	Denied() map[string]string
	// KernelLog returns the kernel's log, as far as this process may read it.
	KernelLog() []byte
	// Python runs code in an interpreter and returns its output.
	Python(ctx context.Context, path, code string) ([]byte, error)
}

// Config says what to inspect.
type Config struct {
	Root   fs.FS // the root directory
	System System
	// NVML queries NVIDIA's library within a time limit; nil skips it.
	NVML func(gpus int, limit time.Duration) (gpufacts.Facts, error)
	// Getenv returns variables such as PATH and the library paths, "" for those that are not set.
	Getenv func(name string) string
	// Python is the interpreter of scripts; "" is python3 in PATH.
	Python string
	// Quick restricts the inspection to the kernel, limits, memory and devices, whose counters are not watched.
	Quick bool
	// Limit is the timeout for everything.
	Limit time.Duration
}

// inspector inspects one host.
type inspector struct {
	Config
	ctx context.Context
	// fabricManager says that NVIDIA's fabric manager was seen.
	fabricManager atomic.Bool
	all           bool // versions of all packages are wanted
}

// section is a part of the inspection. Sections run concurrently and fill in a Host each.
type section struct {
	name string
	run  func(*inspector, *doctor.Host)
}

func (in *inspector) sections() []section {
	quick := []section{
		{"the kernel", (*inspector).kernel},
		{"limits and memory", (*inspector).memory},
		{"CPUs and GPUs", (*inspector).devices},
		{"network interfaces", (*inspector).interfaces},
	}
	if in.Quick {
		return quick
	}
	return append(quick, []section{
		{"/dev/shm", (*inspector).shm},
		{"its name", (*inspector).names},
		{"Python's packages", (*inspector).python},
		{"libraries", (*inspector).libraries},
		{"processes", (*inspector).processes},
	}...)
}

// Inspect inspects the host. Sections that take longer than the limit, such as on a network file system without a
// server, are left out and named in Host.Unknown.
func Inspect(cfg Config) (host doctor.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Limit)
	defer cancel()
	in := &inspector{Config: cfg, ctx: ctx}
	type result struct {
		name string
		part doctor.Host
	}
	all := in.sections()
	results := make(chan result, len(all)) // late sections must not block
	missing := map[string]bool{}
	for _, s := range all {
		missing[s.name] = true
		go func() {
			r := result{name: s.name}
			s.run(in, &r.part)
			results <- r
		}()
	}
	late := time.After(cfg.Limit + cfg.Limit/4) // sections that respect the context end before
	for len(missing) > 0 {
		select {
		case r := <-results:
			merge(&host, r.part)
			delete(missing, r.name)
		case <-late:
			for _, s := range all {
				if missing[s.name] {
					host.Unknown = append(host.Unknown, s.name+": no answer within "+cfg.Limit.String())
				}
			}
			clear(missing)
		}
	}
	if host.NVIDIA != nil {
		host.NVIDIA.FabricManager = in.fabricManager.Load()
	}
	return host
}

// merge copies what a section found into the host.
func merge(host *doctor.Host, part doctor.Host) {
	part.Unknown = append(host.Unknown, part.Unknown...)
	to, from := reflect.ValueOf(host).Elem(), reflect.ValueOf(part)
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// text returns a file's content without surrounding blanks; "" if it cannot be read.
func (in *inspector) text(name string) string {
	data, err := fs.ReadFile(in.Root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(data))
}

// number reads a file that holds one number.
func (in *inspector) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(in.text(name), 10, 64)
	return n, err == nil
}

// natural reads a file that holds one number, 0 if it is missing or negative.
func (in *inspector) natural(name string) int64 {
	n, _ := in.number(name)
	return max(0, n)
}

func (in *inspector) exists(name string) bool { return exists(in.Root, name) }

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// list returns the names in a directory, sorted.
func (in *inspector) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(in.Root, strings.Trim(dir, "/"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// link returns the last element of a symbolic link's target; "" if none exists.
func (in *inspector) link(name string) string {
	target, err := fs.ReadLink(in.Root, name)
	if err != nil {
		return ""
	}
	return target[strings.LastIndexByte(target, '/')+1:]
}

// devices reads the machine and the devices on its PCI bus.
func (in *inspector) devices(h *doctor.Host) {
	h.Machine = sysfs.ReadFS(in.Root, in.System.CPUs(), sysfs.Needs{
		CPUs: true, Memory: true, GPUs: true, Topology: true,
		NICs: true, Links: true,
	})
	m, counted := &h.Machine, time.Now()
	h.RDMA = in.rdma(*m)
	h.NVIDIA = in.nvidia(m)
	h.AMD = in.amd(*m)
	switches := 0
	h.Driverless, switches = in.pci()
	h.IOMMU = in.iommuTypes(*m, h.RDMA)
	h.Bridges = in.bridges(*m)
	h.Governors, h.Governing = in.governors()
	if h.NVIDIA != nil {
		h.NVIDIA.Switches = switches
		h.KernelXids = parseXids(in.System.KernelLog())
	}
	if h.AMD != nil && len(h.AMD.GPUs) > 0 {
		countResets(in.System.KernelLog(), h.AMD.GPUs)
	}
	if !in.Quick {
		in.watch(h.RDMA, counted) // last, to wait less
	}
	if m.Topology != nil {
		m.Topology.CPUs = nil // unused, and most of the size
	}
	m.Notes = nil
}
