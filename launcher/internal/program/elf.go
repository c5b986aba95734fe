package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
)

// loaderLength bounds a loader's path: PATH_MAX.
const loaderLength = 4096

// elf says why the kernel would not run the binary that begins with h.
func (w *Request) elf(name string, f file, fd int, h *head) *Error {
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(h.bytes[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	var header elf.Header64 // what is looked at of others stands at the same places
	if _, err := binary.Decode(h.data(), order, &header); err != nil {
		return refused(name, "is a damaged program: it ends within its header")
	}
	switch elf.Type(header.Type) {
	case elf.ET_REL:
		return refused(name, "is an object file, which has to be linked first")
	case elf.ET_CORE:
		return refused(name, "is a core dump")
	}
	machine := machineName(elf.Machine(header.Machine))
	if machine != runtime.GOARCH || elf.Class(h.bytes[elf.EI_CLASS]) != elf.ELFCLASS64 || order != binary.LittleEndian {
		if kernelRuns(f.open) { // 32-bit programs, and others through qemu-user
			return nil
		}
		return refused(name, "is built for "+machine+", this host is "+runtime.GOARCH)
	}
	return w.loader(name, fd, h.data(), &header)
}

// machineName names a machine as Go does where it has a name.
func machineName(machine elf.Machine) string {
	names := map[elf.Machine]string{
		elf.EM_386: "386", elf.EM_MIPS: "mips", elf.EM_PPC64: "ppc64", elf.EM_S390: "s390x", elf.EM_ARM: "arm (32 bits)",
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_RISCV: "riscv64", elf.EM_LOONGARCH: "loong64",
	}
	if name := names[machine]; name != "" {
		return name
	}
	return "ELF machine " + strconv.Itoa(int(machine))
}

// loader says whether the dynamic loader that a native binary asks for is there:
// execve reports its absence as if the program were missing.
func (w *Request) loader(name string, fd int, data []byte, header *elf.Header64) *Error {
	path, ok := loaderPath(fd, data, header)
	switch {
	case !ok:
		return refused(name, "is a damaged program: its segments are not where its header says")
	case path == "":
		return nil
	}
	f := w.local(path)
	err := f.stat()
	if err == nil {
		return nil
	}
	problem := &Error{Code: codeOf(err), Program: name, Reason: "needs the loader " + visible(path) + ": " +
		reason(f.open, err)}
	if strings.Contains(path, "ld-musl") {
		return problem.hint("it was linked with musl (Alpine): link it statically or build it on this system")
	}
	return problem
}

// loaderPath is the path in the PT_INTERP segment, "" where there is none; ok is
// false for a file that ends too early.
func loaderPath(fd int, data []byte, header *elf.Header64) (path string, ok bool) {
	var segment elf.Prog64
	size := binary.Size(segment)
	if int(header.Phentsize) != size {
		return "", false
	}
	table, ok := slice(fd, data, header.Phoff, uint64(size)*uint64(header.Phnum))
	for ; ok && len(table) > 0; table = table[size:] {
		_, _ = binary.Decode(table, binary.LittleEndian, &segment) // it is long enough
		switch {
		case elf.ProgType(segment.Type) != elf.PT_INTERP:
			continue
		case segment.Filesz == 0 || segment.Filesz > loaderLength:
			return "", false
		}
		text, ok := slice(fd, data, segment.Off, segment.Filesz)
		return string(bytes.TrimRight(text, "\x00")), ok
	}
	return "", ok
}

// slice returns n bytes of a file from offset on, out of its head where they are there.
func slice(fd int, head []byte, offset, n uint64) ([]byte, bool) {
	if end := offset + n; end >= offset && end <= uint64(len(head)) {
		return head[offset:end], true
	}
	if offset > 1<<62 {
		return nil, false
	}
	part := make([]byte, n)
	got, err := readAt(fd, part, int64(offset))
	return part, err == nil && got == len(part)
}
