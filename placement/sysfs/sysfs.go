// Package sysfs reads a [placement.Machine] from the kernel's files: cgroup limits, usable GPUs, and
// the topology of the node. It needs no driver library, no root privileges and no external tool.
//
// All reads go through one [fs.FS] rooted at /, so a machine from a bug report can be replayed from a
// folder. A missing or malformed file is never an error. Its facts are omitted, and a note explains
// it.
package sysfs

import (
	"bytes"
	"fmt"
	"io/fs"

	"gorun/placement"
)

// Needs selects the facts to read. Each fact costs file reads that delay the start of a job, so select
// only the facts that you need.
type Needs struct {
	// CPUs selects the CPU quota. (A system call returns the allowed CPUs.)
	CPUs bool
	// Memory selects the memory limit.
	Memory bool
	// GPUs selects the GPUs that a program can use.
	GPUs bool
	// Driverless selects a note about GPUs on the PCI bus without a driver, if GPUs finds none. It reads
	// hundreds of files on a large server, so use it for messages only.
	Driverless bool
	// Topology selects the topology of the node: CPUs, NUMA nodes, and the positions of the GPUs on the
	// PCI bus.
	Topology bool
	// NICs selects the network interfaces, and requires Topology. Some drivers answer slowly, and they
	// answer one at a time while another program changes the network. Jobs that only bind to cores do not
	// need it.
	NICs bool
	// Links selects the PCIe links of GPUs and NICs, and requires Topology. It reads several files per
	// device, and the placement of ranks does not depend on it.
	Links bool
}

// Read reads this machine, limited to the resources of the calling process.
func Read(needs Needs) placement.Machine {
	allowed, err := Affinity()
	m := ReadFS(disk("/"), allowed, needs)
	if err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
	return m
}

// ReadFS reads a machine from a file tree with proc, sys and dev below its root. The caller provides
// the allowed CPUs, because they come from a system call.
func ReadFS(root fs.FS, allowed placement.CPUSet, needs Needs) placement.Machine {
	r := &reader{root: root, needs: needs, machine: placement.Machine{CPUs: allowed}}
	if needs.CPUs || needs.Memory {
		r.readLimits(needs)
	}
	if needs.GPUs || needs.Topology {
		r.readGPUs(needs)
	}
	if needs.Topology {
		r.readTopology()
	}
	return r.machine
}

type reader struct {
	root    fs.FS
	needs   Needs
	machine placement.Machine
	mounts  []mount // cgroup mounts, parsed on first use
	parsed  bool
	kfdNode map[string]string // from a GPU's PCI address to its KFD node
	virtio  bool              // a network interface belongs to a virtual machine
}

func (r *reader) note(format string, args ...any) {
	r.machine.Notes = append(r.machine.Notes, fmt.Sprintf(format, args...))
}

// text returns the content of a file without the final newline. ok is false if the file cannot be
// read.
func (r *reader) text(name string) (text string, ok bool) {
	data, err := fs.ReadFile(r.root, name)
	if err != nil {
		return "", false
	}
	return string(bytes.TrimRight(data, "\n")), true
}

func (r *reader) exists(name string) bool {
	_, err := fs.Stat(r.root, name)
	return err == nil
}

// names returns the sorted names in a directory, or nil if it cannot be read.
func (r *reader) names(dir string) []string {
	entries, _ := fs.ReadDir(r.root, dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
