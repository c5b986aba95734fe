package tcpstore

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// ErrEnded is that the server is closed, or about to be.
var ErrEnded = errors.New("the store has ended")

// ListenNowhere opens a server without a port of its own: it serves the connections that [Server.Take] gives it, and
// those alone. addr is where whoever does that listens; Config's Host and Port do not count. It is for a port that
// others than store clients come to as well.
func ListenNowhere(cfg Config, addr netip.AddrPort) (*Server, error) {
	return start(cfg, -1, addr)
}

// Take has the server serve a connection, of which first has been read already, as one of its own: the same peers are
// accepted, the same limits hold. It takes the connection over, whatever it returns: the caller must not use it any
// more. [ErrEnded] says that there is no server now.
func (s *Server) Take(c *net.TCPConn, first []byte) error {
	defer c.Close() // a descriptor of our own stays
	fd, err := own(c)
	if err != nil {
		return fmt.Errorf("hand a connection from %v to the store: %w", c.RemoteAddr(), err)
	}
	peer, err := peersocket.EndsOf(fd)
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("hand a connection from %v to the store: %w", c.RemoteAddr(), err)
	}
	first = append([]byte(nil), first...)
	if !s.ask(func(l *loop) { l.takeOver(fd, peer, first) }, false) {
		unix.Close(fd)
		return ErrEnded
	}
	return nil
}

// own returns another descriptor of a connection's socket.
func own(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(shared uintptr) {
		if fd, failed = unix.FcntlInt(shared, unix.F_DUPFD_CLOEXEC, 0); failed == nil {
			failed = inherited(fd)
		}
	})
	return fd, errors.Join(err, failed)
}

// takeOver makes a connection of a socket that somebody else accepted and began to read.
func (l *loop) takeOver(fd int, peer peersocket.Ends, first []byte) {
	if l.over || !l.roomForOne(peer.Remote) {
		unix.Close(fd)
		return
	}
	c := l.admit(fd, peer)
	if c == nil {
		return
	}
	stored := l.engine.Size()
	l.current = c
	l.engine.Charge(&c.host.stored)
	l.take(c, first)
	l.finish(c, l.engine.Size()-stored)
	l.current = nil
}

// roomForOne makes room for a connection, as full does for those in the kernel's queue, or says that there is none:
// nobody could hold it back.
func (l *loop) roomForOne(peer netip.AddrPort) bool {
	if l.open-len(l.doomed) < l.cfg.Limits.Connections || l.giveUpFirst() {
		return true
	}
	l.refused++
	l.complaints.say(complaint{kind: faultCrowd},
		"the store refused a connection from %v: %d are open, which is the limit", peer, l.open)
	return false
}
