// Package kernel makes the two system calls of a spawner thread that need special care for the Go scheduler:
// vfork with execve, and epoll_wait.
//
// A child shares its parent's memory until execve while other threads of the parent run on. Its code must not
// allocate, grow the stack, take a lock or be instrumented by the race detector; it makes raw system calls only. The
// package is separate so that the tests of package process do not instrument it.
package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's hooks around a fork, as used by package syscall: block all signals and forbid stack growth; undo
// both; in a child that inherited signal handlers, reset them and the mask.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// enterSyscallBlock hands off this thread's P at once. After syscall.Syscall, sysmon would do that with a delay.
//
//go:linkname enterSyscallBlock runtime.entersyscallblock
func enterSyscallBlock()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// rawVfork calls clone or clone3 and returns twice, on the same stack.
//
//go:noescape
func rawVfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)

// EpollWait waits up to timeout milliseconds (-1: forever) and returns the number of events; 0 also if a signal
// interrupted it. It polls first, because giving up the P pays only for an actual wait.
func EpollWait(ep int, events []unix.EpollEvent, timeout int) int {
	n, errno := epollPoll(ep, events)
	if n == 0 && errno == 0 && timeout != 0 {
		n, errno = epollBlock(ep, events, timeout)
	}
	if errno != 0 {
		return 0
	}
	return n
}

func epollPoll(ep int, events []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// epollBlock must not grow the stack while it has no P.
//
//go:norace
func epollBlock(ep int, events []unix.EpollEvent, timeout int) (int, syscall.Errno) {
	enterSyscallBlock()
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(timeout), 0, 0)
	exitSyscall()
	return int(n), errno
}
