// Package inspect fills in a [doctor.Host] for the host that it runs on. It reads the
// kernel's files below one root, asks a few system calls of [System], and writes nothing.
// It starts no program but, where a Python's packages cannot be found by files, that
// Python once. Tests give it a tree of files and calls of their own.
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

// System is what no file tells.
type System interface {
	// CPUs are those that this process may use.
	CPUs() placement.CPUSet
	// UID and User are this process's.
	UID() (id int, name string)
	// Uname returns the kernel's release and the machine's architecture.
	Uname() (release, machine string)
	// Limits are those that ranks start with, by their names in limits.conf.
	Limits() map[string]doctor.Limit
	// FileSystem tells of the one that holds path.
	FileSystem(path string) doctor.FileSystem
	// Hostname is what this host calls itself.
	Hostname() string
	// Lookup and Reverse ask the resolver.
	Lookup(ctx context.Context, name string) (addresses []string, err error)
	Reverse(ctx context.Context, address string) (names []string, err error)
	// Addresses are those of the network interfaces: "10.0.0.7/24".
	Addresses() map[string][]string
	// Access says why this process may not read and write a file; "": it may.
	Access(path string) string
	// Denied are system calls that a harmless probe was refused, with the reasons.
	Denied() map[string]string
	// KernelLog is what the kernel said, as far as this process may read it.
	KernelLog() []byte
	// Python runs an interpreter with a line of code and returns what it prints.
	Python(ctx context.Context, path, code string) ([]byte, error)
}

// Config is what is looked at.
type Config struct {
	Root   fs.FS // has proc, sys, dev, etc, ... below it
	System System
	// NVML asks NVIDIA's library about a number of GPUs, for at most as long as that; nil:
	// nobody asks.
	NVML func(gpus int, limit time.Duration) (gpufacts.Facts, error)
	// Environ is the environment that counts for PATH and libraries.
	Environ []string
	// Python is the interpreter that scripts get; "": python3 as PATH has it.
	Python string
	// Program is the job's program there, for its ELF header; "": none.
	Program string
	// Basics has the kernel, limits, memory and RDMA ports read alone.
	Basics bool
	// Limit is how long everything may take.
	Limit time.Duration
}

// inspector looks at one host.
type inspector struct {
	Config
	ctx context.Context
	// fabricManager says that NVIDIA's was seen among the processes.
	fabricManager atomic.Bool
}

// section is a part that is looked at beside the others, into a Host of its own.
type section struct {
	name string
	look func(*inspector, *doctor.Host)
}

func (in *inspector) sections() []section {
	if in.Basics {
		return []section{
			{"the kernel", (*inspector).kernel},
			{"limits and memory", (*inspector).memory},
			{"RDMA adapters", (*inspector).adapters},
		}
	}
	return []section{
		{"the kernel", (*inspector).kernel},
		{"limits and memory", (*inspector).memory},
		{"/dev/shm", (*inspector).shm},
		{"its name", (*inspector).names},
		{"CPUs and GPUs", (*inspector).devices},
		{"network interfaces", (*inspector).interfaces},
		{"Python's packages", (*inspector).python},
		{"libraries", (*inspector).libraries},
		{"processes", (*inspector).processes},
		{"the program", (*inspector).program},
	}
}

// Inspect inspects the host. A part that does not answer in time is left out, with a word
// about it: a network file system whose server is gone answers never.
func Inspect(cfg Config) (host doctor.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Limit)
	defer cancel()
	in := &inspector{Config: cfg, ctx: ctx}
	type answer struct {
		name string
		part doctor.Host
	}
	all := in.sections()
	answers := make(chan answer, len(all)) // who comes too late must not wait
	missing := map[string]bool{}
	for _, s := range all {
		missing[s.name] = true
		go func() {
			a := answer{name: s.name}
			s.look(in, &a.part)
			answers <- a
		}()
	}
	late := time.NewTimer(cfg.Limit + cfg.Limit/4) // who minds the context has answered by then
	defer late.Stop()
	for len(missing) > 0 {
		select {
		case a := <-answers:
			merge(&host, a.part)
			delete(missing, a.name)
		case <-late.C:
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

// merge puts what a section has found into the host.
func merge(host *doctor.Host, part doctor.Host) {
	part.Unknown = append(host.Unknown, part.Unknown...)
	to, from := reflect.ValueOf(host).Elem(), reflect.ValueOf(part)
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// text is a file's content without the blanks around it; "" if it cannot be read.
func (in *inspector) text(name string) string {
	data, err := fs.ReadFile(in.Root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(data))
}

// number is a file's number, and whether it has one.
func (in *inspector) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(in.text(name), 10, 64)
	return n, err == nil
}

// natural is a file's number, 0 where it has none or one below that.
func (in *inspector) natural(name string) int64 {
	n, _ := in.number(name)
	return max(0, n)
}

func (in *inspector) exists(name string) bool {
	_, err := fs.Stat(in.Root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// list is what a directory contains, sorted.
func (in *inspector) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(in.Root, strings.Trim(dir, "/"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// link is the last word of where a symbolic link points to; "" for none.
func (in *inspector) link(name string) string {
	target, err := fs.ReadLink(in.Root, name)
	if err != nil {
		return ""
	}
	return target[strings.LastIndexByte(target, '/')+1:]
}

// lookup returns a variable of the environment.
func (in *inspector) lookup(name string) string {
	for _, assignment := range in.Environ {
		if n, value, _ := strings.Cut(assignment, "="); n == name {
			return value
		}
	}
	return ""
}

// devices reads the machine with all that hangs on its PCI bus.
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
	h.IOMMU = in.groups(*m, h.RDMA)
	h.Bridges = in.bridges(*m)
	h.Governors, h.Governing = in.governors()
	if h.NVIDIA != nil {
		h.NVIDIA.Switches = switches
		h.KernelXids = parseXids(in.System.KernelLog())
	}
	if h.AMD != nil && len(h.AMD.GPUs) > 0 {
		countResets(in.System.KernelLog(), h.AMD.GPUs)
	}
	in.watch(h.RDMA, counted) // last: the rest takes some of the time
	if m.Topology != nil {
		m.Topology.CPUs = nil // nobody judges them, and they are most of what would be sent
	}
	m.Notes = nil
}

// adapters reads RDMA ports.
func (in *inspector) adapters(h *doctor.Host) {
	h.RDMA = in.rdma(sysfs.ReadFS(in.Root, in.System.CPUs(), sysfs.Needs{Topology: true, NICs: true}))
}

// program reads for which machine an executable is built.
func (in *inspector) program(h *doctor.Host) {
	if machine := in.elf(strings.TrimPrefix(in.Program, "/")); machine != "" {
		h.Program = &doctor.Program{ELF: machine}
	}
}

func (in *inspector) elf(name string) string {
	f, err := in.Root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var head [20]byte
	if n, _ := f.Read(head[:]); n < len(head) {
		return ""
	}
	return elfMachine(head[:])
}

// elfMachine names the machine of a header; "" for what is none.
func elfMachine(head []byte) string {
	if len(head) < 20 || !bytes.HasPrefix(head, []byte("\x7fELF")) || head[5] != 1 {
		return ""
	}
	switch uint16(head[18]) | uint16(head[19])<<8 { // e_machine of elf(5), by the kernel's names
	case 62:
		return "x86_64"
	case 183:
		return "aarch64"
	case 243:
		return "riscv64"
	case 3:
		return "i686"
	}
	return ""
}
