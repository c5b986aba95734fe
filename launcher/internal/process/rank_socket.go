package process

import "golang.org/x/sys/unix"

// RankSocket is a rank's descriptor for its end of the socket pair.
const RankSocket = 3

// connectSocket makes r's socket pair: our end goes into r, the rank's into s.child. Both block; clients of PMI rely
// on that.
func (s *spawner) connectSocket(r *rank, ends *childEnds) error {
	s.child.Socket = -1
	if !r.hasSocket {
		return nil
	}
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs, err := aboveStandardBoth(p)
	if err != nil {
		return err
	}
	r.socket = ours
	s.child.Socket = ends.add(theirs)
	return nil
}

// socketReady hands our end of r's socket pair to the sink once r has written to it, and closes it when no process
// can write to it any more. Until then the spawner watches it together with r's pipes. events are epoll's; 0 means
// unknown.
func (s *spawner) socketReady(r *rank, events uint32) {
	if r.socket <= 0 {
		return
	}
	const ends = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if events&unix.EPOLLIN == 0 || events&ends != 0 { // a hang-up may be why it is readable
		var first [1]byte
		n, _, err := unix.Recvfrom(int(r.socket), first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return
		case err != nil || n == 0:
			s.closeSocket(r)
			return
		}
	}
	fd := r.socket
	r.socket = 0
	s.unwatch(fd)
	setNonblock(fd)
	s.g.sink.SocketReadable(r.ID, int(fd))
}

func (s *spawner) closeSocket(r *rank) {
	if r.socket > 0 {
		s.unwatch(r.socket)
		unix.Close(int(r.socket))
		r.socket = 0
	}
}
