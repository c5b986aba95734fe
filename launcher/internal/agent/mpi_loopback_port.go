package agent

import (
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// loopbackPort is a listening port of 127.0.0.1. Clients can connect at once; they are accepted after listen. System
// calls make the socket because net.Listen makes `gorun -n 1 true` 4 to 6 % slower in paired runs.
type loopbackPort struct {
	port int

	mu       sync.Mutex   // guards all below
	fd       int          // before listen
	listener net.Listener // after listen
	closed   bool
}

const backlog = 4096 // the kernel may lower it

func openLoopbackPort() (*loopbackPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	p := &loopbackPort{fd: fd}
	if p.port, err = listenOn(fd); err != nil {
		p.close()
		return nil, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	return p, nil
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

// listen returns the listener. Its error is net.ErrClosed if the port is closed.
func (p *loopbackPort) listen() (l net.Listener, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, net.ErrClosed
	}
	file := os.NewFile(uintptr(p.fd), "loopback port")
	defer file.Close()
	p.listener, err = net.FileListener(file)
	p.closed = err != nil
	return p.listener, err
}

func (p *loopbackPort) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.listener != nil:
		_ = p.listener.Close()
	case !p.closed:
		_ = unix.Close(p.fd)
	}
	p.closed = true
}
