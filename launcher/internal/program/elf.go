package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// maxLoaderPath is PATH_MAX.
const maxLoaderPath = 4096

// checkELF returns an error if the kernel would not run the binary. It reads only the program headers: elf.NewFile
// would read the sections, too, and refuse programs that run without them.
func (req *request) checkELF(name string, f file, image *os.File, h head) *Error {
	var header elf.Header64 // the fields used here have the same offsets in 32-bit headers
	if len(h) < binary.Size(header) {
		return refused(name, "is a damaged program: it ends within its header")
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(h[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	_, _ = binary.Decode(h, order, &header)
	switch elf.Type(header.Type) {
	case elf.ET_REL:
		return refused(name, "is an object file: link it first")
	case elf.ET_CORE:
		return refused(name, "is a core dump")
	}
	machine := machineName(elf.Machine(header.Machine))
	if machine != runtime.GOARCH || elf.Class(h[elf.EI_CLASS]) != elf.ELFCLASS64 || order != binary.LittleEndian {
		if kernelRuns(f.open) { // 32-bit programs, and others through qemu-user
			return nil
		}
		return refused(name, "is built for "+machine+", this host is "+runtime.GOARCH)
	}
	return req.checkLoader(name, image, h, &header)
}

// machineName returns the GOARCH of a machine if it has one.
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

// checkLoader returns an error if the dynamic loader of a native binary is missing, which execve reports as if the
// program were missing.
func (req *request) checkLoader(name string, image *os.File, h head, header *elf.Header64) *Error {
	path, ok := loaderPath(image, h, header)
	switch {
	case !ok:
		return refused(name, "is a damaged program: its segments are not where its header says")
	case path == "":
		return nil
	}
	f := req.local(path)
	err := f.stat()
	if err == nil {
		return nil
	}
	problem := &Error{
		Code: codeOf(err), Program: name, Reason: "needs the loader " + visible(path) + ": " + reason(f.open, err),
	}
	if strings.Contains(path, "ld-musl") {
		return problem.hint("link it statically or build it on this system: it was linked with musl (Alpine)")
	}
	return problem
}

// loaderPath returns the path in the PT_INTERP segment, "" if none exists; ok is false for a damaged file.
func loaderPath(image *os.File, h head, header *elf.Header64) (path string, ok bool) {
	var segment elf.Prog64
	size := binary.Size(segment)
	if int(header.Phentsize) != size {
		return "", false
	}
	table, ok := readRange(image, h, header.Phoff, uint64(size)*uint64(header.Phnum))
	for ; ok && len(table) > 0; table = table[size:] {
		_, _ = binary.Decode(table, binary.LittleEndian, &segment) // it is long enough
		switch {
		case elf.ProgType(segment.Type) != elf.PT_INTERP:
			continue
		case segment.Filesz == 0 || segment.Filesz > maxLoaderPath:
			return "", false
		}
		text, ok := readRange(image, h, segment.Off, segment.Filesz)
		return string(bytes.TrimRight(text, "\x00")), ok
	}
	return "", ok
}

// readRange returns n bytes at an offset, from the head if it has them.
func readRange(image *os.File, h head, offset, n uint64) ([]byte, bool) {
	if end := offset + n; end >= offset && end <= uint64(len(h)) {
		return h[offset:end], true
	}
	if offset > 1<<62 {
		return nil, false
	}
	part := make([]byte, n)
	got, _ := image.ReadAt(part, int64(offset))
	return part, got == len(part)
}
