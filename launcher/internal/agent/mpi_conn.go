package agent

import (
	"errors"
	"io"
	"net"
	"os"
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

func (c conn) LocalAddr() net.Addr  { return socketAddr{} }
func (c conn) RemoteAddr() net.Addr { return socketAddr{} }

// asNet gives errors the sense that those of connections have.
func asNet(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

// socketAddr is that of either end: nobody asks for it.
type socketAddr struct{}

func (socketAddr) Network() string { return "unix" }
func (socketAddr) String() string  { return "" }

var _ io.ReadWriteCloser = conn{}
