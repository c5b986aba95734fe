package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guardThreads is how many threads a guard makes that waits as a Go program. It
// runs Go code on one at a time, and a few wait in the kernel.
const guardThreads = 5

// getReady is what a guard does that is a Go program from the beginning, before it waits.
func getReady() {
	ignoreSignals()
	closeInherited()
	makeThreads(guardThreads)
}

// meant are the signals that somebody may send to end or stop a program. Blocked
// by who starts it they would not stay: the Go runtime unblocks them.
var meant = [...]unix.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM,
	unix.SIGVTALRM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR,
}

// ignoreSignals is for a guard, which is no host program's: see os/signal.Ignore.
func ignoreSignals() {
	ignore := [4]uint64{1} // a struct sigaction with SIG_IGN
	for _, s := range meant {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	}
}

// awaitsLauncher reports whether the pipe that is standard input has a writer.
func awaitsLauncher() bool {
	pipe := []unix.PollFd{{Fd: 0}}
	_, err := unix.Poll(pipe, 0)
	return err == nil && pipe[0].Revents&unix.POLLHUP == 0
}

// closeInherited closes what the launcher was given and has not opened itself.
// Whatever Go opens is to be closed by execve, which is over for what we inherited.
func closeInherited() {
	open, _ := openDescriptors()
	for _, fd := range open {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd >= numStreams && fd != linkDescriptor && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
