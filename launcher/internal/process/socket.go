package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RankSocket is the descriptor at which a rank has its end of a socket pair.
const RankSocket = 3

// connectSocket makes r's socket pair: our end in r, the rank's in s.child. Each end has
// its own status flags: the rank's stays blocking, as clients of PMI expect.
func (s *spawner) connectSocket(r *rank, theirs *childEnds) error {
	s.child.Socket = -1
	if !r.hasSocket {
		return nil
	}
	p, err := socketPair()
	if err != nil {
		return err
	}
	r.socket = p[0]
	s.child.Socket = theirs.add(p[1])
	return nil
}

// socketPair is a pair of connected stream sockets, closed on exec and above the
// standard numbers.
func socketPair() (p [2]int32, err error) {
	const kind = syscall.SOCK_STREAM | syscall.SOCK_CLOEXEC
	if _, _, e := syscall.RawSyscall6(syscall.SYS_SOCKETPAIR, syscall.AF_UNIX, kind, 0, uintptr(unsafe.Pointer(&p)), 0,
		0); e != 0 {
		return p, e
	}
	return lift(p)
}

// spoke hands our end of r's socket pair to the sink once r has written to it, and closes
// it where nobody can any more. The spawner looks at it until then, beside r's pipes: a
// rank that never speaks wakes nobody by its end. events are epoll's, 0: not known.
func (s *spawner) spoke(r *rank, events uint32) {
	const ends = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
	switch {
	case r.socket <= 0:
	case events&syscall.EPOLLIN != 0 && events&ends == 0: // it can be read, and is open: there is something
		s.handOver(r)
	default:
		s.lookFor(r)
	}
}

// lookFor looks whether r has written. Its end may be why the socket can be read.
func (s *spawner) lookFor(r *rank) {
	var first byte
	n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(r.socket), uintptr(unsafe.Pointer(&first)), 1,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	switch {
	case e == syscall.EAGAIN || e == syscall.EINTR:
	case e != 0 || n == 0:
		s.closeSocket(r)
	default:
		s.handOver(r)
	}
}

func (s *spawner) handOver(r *rank) {
	fd := r.socket
	r.socket = 0
	s.unwatch(fd)
	setNonblock(fd)
	s.g.sink.Spoke(r.ID, int(fd))
}

func (s *spawner) closeSocket(r *rank) {
	if r.socket > 0 {
		s.unwatch(r.socket)
		syscall.Close(int(r.socket))
		r.socket = 0
	}
}
