package process

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is what waitid(2) tells of a child: siginfo_t on 64-bit machines.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// The codes of siginfo for a child that has ended, from <bits/siginfo-consts.h>.
const (
	childExited = 1 + iota
	childKilled
	childDumped
)

// exited tells the sink that r has ended, with what r itself wrote before that.
// r stays a zombie until close or Group.Reap, which keeps its pid from being used again.
func (s *spawner) exited(r *rank) {
	at := time.Now()
	for stream := range r.end {
		if r.end[stream] >= 0 && !s.g.paused[stream].Load() {
			s.drain(r, stream)
		}
	}
	s.spoke(r, 0)
	var info siginfo
	if e := r.wait(&info, unix.WNOHANG|unix.WNOWAIT); e != 0 {
		r.stolen.Store(true)
	}
	if r.pidfd >= 0 {
		s.unwatch(r.pidfd)
		syscall.Close(int(r.pidfd))
		r.pidfd = -1
	}
	r.exited = true
	r.keeper.Store(s)
	s.alive--
	s.g.sink.Exited(r.ID, info.decode(), at)
}

// decode makes a Status of what waitid said; nothing, if another part of this
// process has waited for the rank.
func (i *siginfo) decode() Status {
	switch i.code {
	case childExited:
		return Status{Code: int(i.status)}
	case childKilled, childDumped:
		return Status{Code: -1, Signal: syscall.Signal(i.status), Core: i.code == childDumped}
	}
	return Status{Code: -1}
}

// wait asks for r's end by its pidfd, which is safe even where another part of
// this process takes children that aren't its own.
func (r *rank) wait(info *siginfo, options int) syscall.Errno {
	if r.pidfd < 0 {
		return waitid(unix.P_PID, int(r.pid.Load()), info, options)
	}
	return waitid(unix.P_PIDFD, int(r.pidfd), info, options)
}

// waitid waits for the end of one child. It never asks for any child: the host
// program has its own.
func waitid(kind, id int, info *siginfo, options int) syscall.Errno {
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(info)),
			uintptr(options|unix.WEXITED), 0, 0)
		if e != syscall.EINTR {
			return e
		}
	}
}

// watchExit has s notice the end of r: by its pidfd, or on kernels before 5.3 by
// a goroutine, and so a thread, that waits for it.
func (s *spawner) watchExit(r *rank) {
	if r.pidfd >= 0 && s.watch(r.pidfd, r.index<<2|exitTag) == 0 {
		return
	}
	if r.pidfd >= 0 {
		syscall.Close(int(r.pidfd))
		r.pidfd = -1
	}
	pid := int(r.pid.Load())
	go func() {
		var info siginfo
		waitid(unix.P_PID, pid, &info, unix.WNOWAIT)
		s.post(func() { s.exited(r) })
	}()
}
