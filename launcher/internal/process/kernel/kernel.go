// Package kernel makes the two system calls of a spawner that the Go scheduler
// has to be told about in a special way: the start of a child and epoll_wait.
//
// A child shares its parent's memory until it executes its program, while other
// threads of the parent run on. So its code may not allocate, need stack, take a
// lock or meet the race detector, and calls nothing but the kernel. That is why it
// stands apart, small, and in a package of its own, which the tests of package
// process do not instrument.
package kernel

import (
	"syscall"
	"unsafe"
)

// The runtime's own steps around a fork, as package syscall uses them: block
// all signals and forbid stack growth, undo both, and (in a child that has its
// parent's signal handlers) reset these and the mask.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// enterSyscallBlock hands this thread's P to other goroutines at once.
// syscall.Syscall leaves that to the runtime's monitor, which takes its time.
//
//go:linkname enterSyscallBlock runtime.entersyscallblock
func enterSyscallBlock()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// rawVfork calls clone or clone3 and returns twice, on the same stack.
//
//go:noescape
func rawVfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)

// EpollWait waits up to timeout milliseconds, -1 is forever, and returns the
// number of events; 0 also if a signal came. It looks first: giving up the P only
// pays if there is a wait.
func EpollWait(ep int, events []syscall.EpollEvent, timeout int) int {
	n, errno := epollPoll(ep, events)
	if n == 0 && errno == 0 && timeout != 0 {
		n, errno = epollBlock(ep, events, timeout)
	}
	if errno != 0 {
		return 0
	}
	return n
}

func epollPoll(ep int, events []syscall.EpollEvent) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// epollBlock calls nothing that may need stack between the two that part it from
// the scheduler.
//
//go:norace
func epollBlock(ep int, events []syscall.EpollEvent, timeout int) (int, syscall.Errno) {
	enterSyscallBlock()
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(timeout), 0, 0)
	exitSyscall()
	return int(n), errno
}
