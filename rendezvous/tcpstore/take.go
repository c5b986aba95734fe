package tcpstore

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// ErrEnded is returned by [Server.Take] when the server is closed.
var ErrEnded = errors.New("the store has closed")

// ListenNowhere starts a server without a port of its own, which serves only the connections passed to [Server.Take].
// addr is what [Server.Addr] returns; Config's Host and Port are ignored. Use it if other clients connect to the
// store's port, too.
func ListenNowhere(cfg Config, addr netip.AddrPort) (*Server, error) {
	return start(cfg, -1, addr)
}

// Take has the server serve a connection from which first has been read already. The same peers are accepted and the
// same limits apply as to its own connections. Take owns c in any case: do not use it afterwards. The error is
// [ErrEnded] if the server is closed.
func (s *Server) Take(c *net.TCPConn, first []byte) error {
	defer c.Close() // the server has a descriptor of its own
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
	if !s.enqueue(func(l *loop) { l.takeOver(fd, peer, first) }, false) {
		unix.Close(fd)
		return ErrEnded
	}
	return nil
}

// own duplicates the descriptor of a connection.
func own(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(shared uintptr) {
		if fd, failed = unix.FcntlInt(shared, unix.F_DUPFD_CLOEXEC, 0); failed == nil {
			failed = setOptions(fd)
		}
	})
	return fd, errors.Join(err, failed)
}

// takeOver serves a connection that was accepted, and read from, elsewhere.
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

// roomForOne makes room for a connection, or reports that it cannot.
func (l *loop) roomForOne(peer netip.AddrPort) bool {
	if l.open-len(l.closing) < l.cfg.Limits.Connections || l.dropOldest() {
		return true
	}
	l.refused++
	l.complaints.log(complaint{kind: faultFull},
		"the store refused a connection from %v: the limit of %d is reached", peer, l.open)
	return false
}
