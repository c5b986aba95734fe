package agent

import (
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// doorway is a port of 127.0.0.1 to which PMIx clients come, or PMI's where they have no descriptor. It is made by
// system calls: net.Listen takes a tenth of a millisecond longer, for which each job would wait. Clients may come from
// the beginning, and wait there until begin.
type loopbackPort struct {
	port int

	mu       sync.Mutex
	fd       int          // until begin
	listener net.Listener // from then on
	closed   bool
}

// backlog of those who have not been let in; the kernel has a limit of its own.
const backlog = 4096

func openLoopbackPort() (*loopbackPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	d := &loopbackPort{fd: fd}
	if d.port, err = listenOn(fd); err != nil {
		d.close()
		return nil, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	return d, nil
}

func listenOn(fd int) (port int, err error) {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return 0, err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return at.(*unix.SockaddrInet4).Port, nil
}

// begin lets those in who come. The error is net.ErrClosed once the doorway is closed.
func (d *loopbackPort) begin() (l net.Listener, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, net.ErrClosed
	}
	file := os.NewFile(uintptr(d.fd), "port for PMIx")
	defer file.Close()
	d.listener, err = net.FileListener(file)
	d.closed = err != nil
	return d.listener, err
}

func (d *loopbackPort) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.listener != nil:
		_ = d.listener.Close()
	case !d.closed:
		_ = unix.Close(d.fd)
	}
	d.closed = true
}

// newConn is the connection behind a descriptor of a socket, which it takes over.
func newConn(fd int, name string) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return net.FileConn(file)
}
