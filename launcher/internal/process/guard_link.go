package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An agent ends its ranks when its connection to the head is closed. A stopped agent (SIGSTOP, a debugger) cannot; its
// guard, which holds a duplicate of the connection's descriptor, does it instead. As long as the head keeps the
// connection open the guard does nothing: the head decides how long an agent may be stopped.

// linkDescriptor is the guard's descriptor of the link, or of the pipe again if there is no link. It is not a standard
// stream, to which a panicking Go program would write.
const linkDescriptor = 3

// Time limits for an agent to end after its link is closed. It usually takes milliseconds, but longer on a busy host or
// with files that are slow to close.
const (
	stoppedLimit = 3 * time.Second
	endLimit     = 30 * time.Second
	linkPeriod   = 500 * time.Millisecond
)

// copyLink duplicates the link to a descriptor above the guard's. Without a link, or if this process has closed it, it
// duplicates the pipe.
func copyLink(link syscall.Conn, pipe int) (copied int, err error) {
	duplicate := func(fd uintptr) { copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, linkDescriptor+1) }
	if link != nil {
		if raw, closed := link.SyscallConn(); closed == nil && raw.Control(duplicate) == nil {
			return copied, os.NewSyscallError("fcntl", err)
		}
	}
	duplicate(uintptr(pipe))
	return copied, os.NewSyscallError("fcntl", err)
}

// killAfterLink waits until the link is closed, then gives the launcher time to end, and kills it if it does not. That
// closes the pipe, for which the guard waits.
func killAfterLink() {
	link := []unix.PollFd{{Fd: linkDescriptor, Events: unix.POLLRDHUP}}
	for link[0].Revents == 0 {
		_, _ = unix.Poll(link, -1)
	}
	launcher := os.Getppid()
	fd, err := unix.PidfdOpen(launcher, 0)
	if err != nil || !launcherAlive() { // alive after PidfdOpen: the pidfd is the launcher's
		return
	}
	for waited := time.Duration(0); launcherAlive(); waited += linkPeriod {
		p, _ := Describe(launcher)
		stopped := p.State == 'T' || p.State == 't'
		if waited >= endLimit || stopped && waited >= stoppedLimit {
			_ = signalPidfd(fd, launcher, unix.SIGKILL)
			return
		}
		time.Sleep(linkPeriod)
	}
}
