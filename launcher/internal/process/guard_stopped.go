package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A launcher that is an agent ends its ranks when its connection to the head is closed. One that
// is stopped (SIGSTOP, a debugger) cannot, and nobody else is there who would: its guard sees the
// same connection, by a copy of the descriptor. While the head keeps the connection the job
// runs, and a stopped agent is no reason to end it: how long it may be is the head's to decide.

// linkDescriptor is where a guard has the link; without one it is the pipe again. It is
// none of the standard streams, to which a Go program that panics would write.
const linkDescriptor = 3

// How long an agent has to end after its link is closed. Usually it takes some milliseconds, and a
// guard never looks; on a busy host, or with files that are slow to close, it takes longer.
const (
	stoppedLimit = 3 * time.Second
	endLimit     = 30 * time.Second
	linkPeriod   = 500 * time.Millisecond
)

// copyLink duplicates the link, or the pipe in its place, beyond the descriptors that guards have.
// A link that this process has closed is none any more.
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

// endWithLink waits until the link is closed, then for the launcher to end because of that. A
// launcher that does not is killed: the pipe is closed then, which the guard waits for.
func endWithLink() {
	link := []unix.PollFd{{Fd: linkDescriptor, Events: unix.POLLRDHUP}}
	for link[0].Revents == 0 {
		_, _ = unix.Poll(link, -1)
	}
	launcher := os.Getppid()
	fd, err := unix.PidfdOpen(launcher, 0)
	if err != nil || !awaitsLauncher() { // its writer is alive after all of that: the number was the launcher's
		return
	}
	for waited := time.Duration(0); awaitsLauncher(); waited += linkPeriod {
		p, _ := Describe(launcher)
		stopped := p.State == 'T' || p.State == 't'
		if waited >= endLimit || stopped && waited >= stoppedLimit {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			return
		}
		time.Sleep(linkPeriod)
	}
}
