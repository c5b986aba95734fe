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

// A guard spends its life in one system call. Its program is therefore a static
// ELF file of a few hundred bytes, made in memory: starting it takes a fraction
// of what a fork of this process costs (whose pages would have to be shared, and
// copied when we write to them), and it keeps nothing of our memory alive.
//
// The machine code is guardProgram in guard_image_*.s: it blocks all signals,
// takes its name, closes what it should not have, and waits until descriptor 0,
// the pipe, has no writer left, or descriptor 3, the link, no other end. Then it
// executes descriptor 1, a program that calls EnterGuard, with the arguments and
// environment that it was given.

// guardProgram is machine code for another process. It is never called.
//
//lint:ignore U1000 guardProgramAddress refers to it, in assembly
func guardProgram()

// guardProgramAddress returns where guardProgram's code begins.
func guardProgramAddress() uintptr

const (
	guardCodeSize = 512     // more than guardProgram takes; what follows it is never reached
	guardBase     = 1 << 22 // address of the image in its process
	elfHeader     = 64
	elfProgram    = 56 // size of a program header
)

// guardImage returns the ELF file: both headers, then the code.
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
	b = le.AppendUint32(b, 1) // to load
	b = le.AppendUint32(b, 5) // to read and execute
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

// spawn starts the tiny program, or where the guard has to be ready or files in memory cannot be
// executed, the one that it becomes.
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
	if !g.ready {
		pid, pidfd, err = spawnImage(self, read, exe, link)
	}
	if g.ready || err != nil {
		pid, pidfd, err = spawnGuard(exe, self, read, -1, link)
	}
	if err == nil && pidfd < 0 { // before Linux 5.2 the flag was unknown and not looked at
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		err = os.NewSyscallError("clone with a pidfd, which takes Linux 5.4", unix.ENOSYS)
	}
	return pid, pidfd, err
}

// openProgram opens a file for execveat(2).
func openProgram(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	moved, err := aboveStandard(int32(fd))
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

// spawnGuard starts a program with the read end of the pipe, the program that it becomes in the end (-1: it is
// that) and the link.
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
