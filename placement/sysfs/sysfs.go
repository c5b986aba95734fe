// Package sysfs reads a [placement.Machine] from the kernel's files: what cgroups
// allow, which GPUs a program can use, and what the node consists of. It needs no driver library, no root
// and no external tool.
//
// All reading goes through one [fs.FS] rooted at /, so a strange machine from a
// bug report can be replayed from a folder of files. A file that is missing or
// strange never fails: what it would have told is left out, with a note.
package sysfs

import (
	"bytes"
	"fmt"
	"io/fs"

	"gorun/placement"
)

// Needs are the facts to read. Each costs files, and starting a job waits for
// them: one asks for no more than what the decision at hand depends on.
type Needs struct {
	// CPUs asks for the CPU quota. (The allowed CPUs are no file.)
	CPUs bool
	// Memory asks for the memory limit.
	Memory bool
	// GPUs asks for the GPUs that a program can use.
	GPUs bool
	// Driverless asks for a note about GPUs on the PCI bus that no driver serves,
	// where GPUs finds none. It reads hundreds of files on a large server: for
	// messages, not for a start.
	Driverless bool
	// Topology asks for what the node consists of, with the GPUs: CPUs, NUMA nodes
	// and where on the PCI bus they are.
	Topology bool
	// NICs asks for the network interfaces, too, with Topology. It is apart because
	// their drivers answer, some slowly, and all one after the other while another
	// program changes the network: a job that only binds to cores does not wait for that.
	NICs bool
	// Links asks for the PCIe links of GPUs and NICs, too, with Topology: several
	// files for each, and no place of a rank depends on them.
	Links bool
}

// Read reads this machine, as the calling process may use it.
func Read(needs Needs) placement.Machine {
	allowed, err := Affinity()
	m := ReadFS(disk("/"), allowed, needs)
	if err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
	return m
}

// ReadFS reads a machine from a file tree with proc, sys and dev below its root.
// The allowed CPUs are given, for they are a system call's to tell.
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

// reader fills a machine.
type reader struct {
	root    fs.FS
	needs   Needs
	machine placement.Machine
	mounts  []mount // of cgroups; parsed on first use
	parsed  bool
	kfdNode map[string]string // from a GPU's PCI address to its node of AMD's compute driver
	virtio  bool              // a network interface is a virtual machine's
}

func (r *reader) note(format string, args ...any) {
	r.machine.Notes = append(r.machine.Notes, fmt.Sprintf(format, args...))
}

// text returns a file's content without the newline at its end; ok is false if
// it cannot be read.
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

// names returns what a directory contains, sorted; nothing if it cannot be read.
func (r *reader) names(dir string) []string {
	entries, _ := fs.ReadDir(r.root, dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
