package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forkPlan is all that a forked guard uses, laid out in memory before there is
// one: its only thread starts in the middle of a Go program whose other threads,
// locks and garbage collector are gone. So between fork and execve it executes
// nothing but functions that neither allocate, grow the stack nor are watched by
// the race detector, and raw system calls.
type forkPlan struct {
	pipe uintptr // read end, 3 or more
	link uintptr // 4 or more
	exe  uintptr // the program to become, 3 or more
	argv *[3]*byte
	envp *[2]*byte
	name *byte // for ps: the kernel's name of the program
	// words are argv and the environment in our memory, which are what
	// /proc/PID/cmdline and environ show; in the child shown takes their place.
	words, shown [2][]byte
	// descriptors bounds the numbers to close where close_range(2) is missing.
	descriptors uintptr
	poll        [2]unix.PollFd
	pause       unix.Timespec
}

const (
	allSignals   = ^uint64(0)
	execAttempts = 50 // with pauses of 20 ms
)

// fork starts the guard and returns in the launcher only. All signals are
// blocked in the child for good, also beyond execve, so that neither handlers of
// the Go runtime run in it nor SIGTERM and its like end it. A plain clone keeps
// parent and child apart in memory; sharing it would be cheaper, but the
// out-of-memory killer takes all who share what it frees.
//
//go:norace
//go:nosplit
//go:noinline
//go:nocheckptr
func (p *forkPlan) fork() (pid, pidfd int, errno syscall.Errno) {
	blocked, before, fd := allSignals, uint64(0), int32(-1)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&blocked)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	r, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_PIDFD, 0,
		uintptr(unsafe.Pointer(&fd)), 0, 0, 0)
	if r == 0 && errno == 0 {
		p.guard()
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return int(r), int(fd), errno
}

// guard is the guard's life. It does not return.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (p *forkPlan) guard() {
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(p.name)), 0, 0, 0, 0)
	copy(p.words[0], p.shown[0])
	copy(p.words[1], p.shown[1])
	p.keepPipe()
	syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&rootDir)), 0, 0)
	for p.poll[0].Revents|p.poll[1].Revents == 0 { // until the last write end, or the link's other end, is closed
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.poll)), 2, 0, 0, 0, 0)
	}
	p.sweep()
}

// rootDir is a C string, and from its second byte on the empty one.
var rootDir = [2]byte{'/', 0}

// keepPipe moves the pipe to descriptor 0, the program to 1 and the link to 3, and closes
// all others.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (p *forkPlan) keepPipe() {
	const first = linkDescriptor + 1
	syscall.RawSyscall(unix.SYS_DUP3, p.pipe, 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, p.exe, 1, unix.O_CLOEXEC)
	syscall.RawSyscall(unix.SYS_DUP3, p.link, linkDescriptor, 0)
	syscall.RawSyscall(unix.SYS_CLOSE, 2, 0, 0)
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, uintptr(^uint32(0)), 0); errno == 0 {
		return
	}
	for fd := uintptr(first); fd < p.descriptors; fd++ {
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
}

// sweep becomes a Go program again, which reads the pipe. That works when the
// program's file was replaced or deleted meanwhile. Memory or processes may be
// short for a moment.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (p *forkPlan) sweep() {
	for range execAttempts {
		syscall.RawSyscall6(unix.SYS_EXECVEAT, 1, uintptr(unsafe.Pointer(&rootDir[1])), uintptr(unsafe.Pointer(p.argv)),
			uintptr(unsafe.Pointer(p.envp)), unix.AT_EMPTY_PATH, 0)
		syscall.RawSyscall6(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&p.pause)), 0, 0, 0, 0, 0)
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
}
