package program

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
)

// Of the ELF format what tells whether this kernel runs a file (elf(5)).
const (
	elfClass64   = 2
	elfLittle    = 1
	elfObject    = 1 // e_type
	elfExec      = 2
	elfShared    = 3 // position-independent programs too
	elfCore      = 4
	elfX86_64    = 62 // e_machine
	elfAArch64   = 183
	elfInterp    = 3 // p_type: the loader's path
	elfHeader    = 64
	elfSegment   = 56
	loaderLength = 4096 // PATH_MAX
)

// elf says why the kernel would not run the binary that begins with h.
func (w *Wish) elf(name string, f file, fd int, h *head) *Error {
	data := h.data()
	if len(data) < elfHeader {
		return refused(name, "is a damaged program: it ends within its header")
	}
	switch binary.LittleEndian.Uint16(data[16:]) {
	case elfObject:
		return refused(name, "is an object file, which has to be linked first")
	case elfCore:
		return refused(name, "is a core dump")
	}
	if !isNative(data) {
		if kernelRuns(f.open) { // 32-bit programs, and others through qemu-user
			return nil
		}
		return refused(name, "is built for "+machineOf(data)+", this host is "+runtime.GOARCH)
	}
	return w.loader(name, fd, data)
}

// isNative reports whether a header is of this program's own machine.
func isNative(header []byte) bool {
	machine := uint16(elfX86_64)
	if runtime.GOARCH == "arm64" {
		machine = elfAArch64
	}
	return header[4] == elfClass64 && header[5] == elfLittle && binary.LittleEndian.Uint16(header[18:]) == machine
}

// machineOf names the machine that a header is for, as Go does where it has a name.
func machineOf(header []byte) string {
	order := binary.ByteOrder(binary.LittleEndian)
	if header[5] != elfLittle {
		order = binary.BigEndian
	}
	switch machine := order.Uint16(header[18:]); machine {
	case 3:
		return "386"
	case 8:
		return "mips"
	case 21:
		return "ppc64"
	case 22:
		return "s390x"
	case 40:
		return "arm (32 bits)"
	case elfX86_64:
		return "amd64"
	case elfAArch64:
		return "arm64"
	case 243:
		return "riscv64"
	case 258:
		return "loong64"
	default:
		return "ELF machine " + strconv.Itoa(int(machine))
	}
}

// loader says whether the dynamic loader that a native binary asks for is there:
// execve reports its absence as if the program were missing.
func (w *Wish) loader(name string, fd int, data []byte) *Error {
	path, ok := loaderPath(fd, data)
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
func loaderPath(fd int, data []byte) (path string, ok bool) {
	offset := binary.LittleEndian.Uint64(data[32:])
	size, count := uint64(binary.LittleEndian.Uint16(data[54:])), uint64(binary.LittleEndian.Uint16(data[56:]))
	if size != elfSegment {
		return "", false
	}
	table, ok := slice(fd, data, offset, size*count)
	for ; ok && len(table) > 0; table = table[elfSegment:] {
		if binary.LittleEndian.Uint32(table) != elfInterp {
			continue
		}
		length := binary.LittleEndian.Uint64(table[32:])
		if length == 0 || length > loaderLength {
			return "", false
		}
		text, ok := slice(fd, data, binary.LittleEndian.Uint64(table[8:]), length)
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
