package process

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A guard spends its life in one system call. Its program is therefore a static ELF file of a few hundred bytes in
// memory. Measured in paired runs of `gorun -n 1 true`, starting the Go program instead costs 17 % more CPU time and
// up to 16 % more wall time, and each guard would hold some megabytes.
//
// The machine code is guardProgram in guard_image_*.s. It blocks all signals, sets its name, closes other descriptors
// and waits until the pipe (descriptor 0) has no writer or the link (descriptor 3) is closed. Then it executes
// descriptor 1, a program that calls EnterGuard, with its own arguments and environment.

// guardProgram is machine code for another process; it is never called here.
//
//lint:ignore U1000 guardProgramAddress refers to it, in assembly
func guardProgram()

func guardProgramAddress() uintptr

const (
	guardCodeSize = 512     // more than guardProgram has; the rest is never reached
	guardBase     = 1 << 22 // address of the image in its process
	elfHeader     = 64
	elfProgram    = 56 // size of a program header
)

// guardImage returns the ELF file: ELF header, program header, code.
var guardImage = sync.OnceValue(func() []byte {
	const size = elfHeader + elfProgram + guardCodeSize
	le := binary.LittleEndian
	b := make([]byte, 0, size)
	b = append(b, 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0) // 64 bits, little-endian, version 1
	b = le.AppendUint16(b, 2)                                              // executable
	b = le.AppendUint16(b, guardMachine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, guardBase+elfHeader+elfProgram) // entry
	b = le.AppendUint64(b, elfHeader)                      // program headers
	b = le.AppendUint64(b, 0)                              // no sections
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{elfHeader, elfProgram, 1, 0, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	b = le.AppendUint32(b, 1) // PT_LOAD
	b = le.AppendUint32(b, 5) // PF_R | PF_X
	for _, n := range []uint64{0, guardBase, guardBase, size, size, 1 << 16} {
		b = le.AppendUint64(b, n)
	}
	return append(b, guardCode()...)
})

// guardCode returns the bytes of guardProgram.
//
//go:noinline
//go:nocheckptr
func guardCode() []byte {
	address := guardProgramAddress()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), guardCodeSize)
}

// spawn starts the ELF image; or directly the Go program, if the guard is prepared or a memfd cannot be executed.
func (g *Guard) spawn(self guardSelf, read int) (pid, pidfd int, err error) {
	program := g.config.Executable
	if program == "" {
		program = "/proc/self/exe"
	}
	exe, err := openProgram(program)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(exe)
	link, err := copyLink(g.config.Link, read)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(link)
	if !g.prepared {
		pid, pidfd, err = spawnImage(self, read, exe, link)
	}
	if g.prepared || err != nil {
		pid, pidfd, err = spawnGuard(exe, self, read, -1, link)
	}
	if err == nil && pidfd < 0 { // before Linux 5.2 clone ignored the flag
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		err = os.NewSyscallError("clone with a pidfd: needs Linux 5.4 or later", unix.ENOSYS)
	}
	return pid, pidfd, err
}

// openProgram opens a file for execveat(2).
func openProgram(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	moved, err := aboveStandard(fd)
	return int(moved), err
}

func spawnImage(self guardSelf, read, exe, link int) (pid, pidfd int, err error) {
	image, err := unix.MemfdCreate(guardName, unix.MFD_CLOEXEC)
	if err != nil {
		return 0, -1, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(image)
	if _, err := unix.Write(image, guardImage()); err != nil {
		return 0, -1, os.NewSyscallError("write", err)
	}
	return spawnGuard(image, self, read, exe, link)
}

// spawnGuard starts a program with the descriptors of a guard: the read end of the pipe, the program to execute in the
// end (-1: it already runs) and the link.
func spawnGuard(program int, self guardSelf, read, exe, link int) (pid, pidfd int, err error) {
	path := fmt.Sprintf("/proc/self/fd/%d", program)
	pid, err = syscall.ForkExec(path, []string{guardName, guardVerb}, &syscall.ProcAttr{
		Dir: "/", Env: self.environ, Files: []uintptr{uintptr(read), uintptr(exe), ^uintptr(0), uintptr(link)},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return 0, -1, os.NewSyscallError("execve", err)
	}
	return pid, pidfd, nil
}
