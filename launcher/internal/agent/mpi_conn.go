package agent

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// conn is the connection behind a descriptor of a stream socket. It is a file to Go's poller, which
// takes two system calls; net.FileConn takes a dozen, to find out what is known here.
type conn struct{ *os.File }

// newConn takes a descriptor over, which does not block.
func newConn(fd int, name string) net.Conn { return conn{os.NewFile(uintptr(fd), name)} }

func (c conn) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	return n, asNet(err)
}

func (c conn) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	return n, asNet(err)
}

func (c conn) LocalAddr() net.Addr  { return c.addr(unix.Getsockname) }
func (c conn) RemoteAddr() net.Addr { return c.addr(unix.Getpeername) }

// addr is the address of an end; the kernel is asked when somebody wants to know.
func (c conn) addr(ask func(fd int) (unix.Sockaddr, error)) net.Addr {
	var at unix.Sockaddr
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { at, _ = ask(int(fd)) })
	}
	if tcp, ok := at.(*unix.SockaddrInet4); ok {
		return &net.TCPAddr{IP: tcp.Addr[:], Port: tcp.Port}
	}
	return &net.UnixAddr{Net: "unix"}
}

// asNet gives errors the sense that those of connections have.
func asNet(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

var _ io.ReadWriteCloser = conn{}
