package agent

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// doorway is a port of 127.0.0.1 to which PMIx clients come, or PMI's where they have no descriptor. It is made by
// system calls: the first net.Listen of a process asks the kernel for all that it can do, which would be a fiftieth of
// the time of a job whose rank ends at once. Clients may come from the beginning, and wait there until begin.
type doorway struct {
	port int

	mu     sync.Mutex
	fd     int      // until begin
	file   *os.File // from then on
	raw    syscall.RawConn
	closed bool
}

// backlog of those who have not been let in; the kernel has a limit of its own.
const backlog = 4096

func openDoorway() (*doorway, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	port, err := listenOn(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	return &doorway{port: port, fd: fd}, nil
}

func listenOn(fd int) (port int, err error) {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	// Those who are let in inherit it: answers are small, and waited for.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
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

// begin has accept wait without a thread. The error is os.ErrClosed once the doorway is closed.
func (d *doorway) begin() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	d.file = os.NewFile(uintptr(d.fd), "port for PMIx")
	d.raw, err = d.file.SyscallConn()
	return err
}

// accept waits for the next who comes, and gives its descriptor. The error is os.ErrClosed once the doorway is closed.
func (d *doorway) accept() (fd int, err error) {
	var failed error
	err = d.raw.Read(func(port uintptr) (done bool) {
		fd, _, failed = unix.Accept4(int(port), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil: // RawConn has no other reason
		return -1, os.ErrClosed
	case failed != nil:
		return -1, fmt.Errorf("accept a connection: %w", failed)
	}
	return fd, nil
}

func (d *doorway) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.file != nil {
		_ = d.file.Close()
	} else {
		_ = unix.Close(d.fd)
	}
}
