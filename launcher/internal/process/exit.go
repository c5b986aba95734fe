package process

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is siginfo_t as waitid(2) fills it in on 64-bit machines. unix.Siginfo lacks the fields of SIGCHLD.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// Values of siginfo.code for an ended child, from <bits/siginfo-consts.h>.
const (
	childExited = 1 + iota
	childKilled
	childDumped
)

// exited reports the exit of r, after all that r itself has written. r stays a zombie until close or Group.Reap,
// so its pid is not reused.
func (s *spawner) exited(r *rank) {
	at := time.Now()
	for stream := range r.end {
		if r.end[stream] >= 0 && !s.g.paused[stream].Load() {
			s.drain(r, stream)
		}
	}
	s.socketReady(r, 0)
	var info siginfo
	kind, id := unix.P_PID, int(r.pid.Load())
	if r.pidfd >= 0 { // safe even if another part of this process reaps any child
		kind, id = unix.P_PIDFD, int(r.pidfd)
	}
	if waitid(kind, id, &info, unix.WNOHANG|unix.WNOWAIT) != nil {
		r.reapedElsewhere.Store(true)
	}
	if r.pidfd >= 0 {
		s.unwatch(r.pidfd)
		unix.Close(int(r.pidfd))
		r.pidfd = -1
	}
	r.exited = true
	r.exitedOn.Store(s)
	s.alive--
	s.g.sink.Exited(r.ID, info.exitStatus(), at)
}

// exitStatus converts the result of waitid. The status is unknown (code -1) if another part of this process has reaped
// the child.
func (i *siginfo) exitStatus() Status {
	switch i.code {
	case childExited:
		return Status{Code: int(i.status)}
	case childKilled, childDumped:
		return Status{Code: -1, Signal: syscall.Signal(i.status), Core: i.code == childDumped}
	}
	return Status{Code: -1}
}

// waitid waits for the end of one child, never for any child: the host program has its own.
func waitid(kind, id int, info *siginfo, options int) error {
	for {
		err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(info)), options|unix.WEXITED, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// watchExit reports the end of r through its pidfd. Without one (Linux before 5.2, such as RHEL 8's 4.18, or an
// emulator) a goroutine, and thus a thread, waits for it.
func (s *spawner) watchExit(r *rank) {
	if r.pidfd >= 0 {
		if s.watch(r.pidfd, r.index<<2|exitTag) == nil {
			return
		}
		unix.Close(int(r.pidfd))
		r.pidfd = -1
	}
	pid := int(r.pid.Load())
	go func() {
		var info siginfo
		_ = waitid(unix.P_PID, pid, &info, unix.WNOWAIT)
		s.post(func() { s.exited(r) })
	}()
}
