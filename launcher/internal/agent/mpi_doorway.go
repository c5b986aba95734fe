package agent

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// doorway is a port of 127.0.0.1 to which PMIx clients come, or PMI's where they have no descriptor. It is made by system calls: the first
// net.Listen of a process asks the kernel for all that it can do, which would be a fiftieth of the time
// of a job whose rank ends at once.
type doorway struct {
	file *os.File
	raw  syscall.RawConn
	port int
}

// backlog of those who have not been let in; the kernel has a limit of its own.
const backlog = 4096

func openDoorway() (*doorway, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "port for MPI")
	d, err := listenOn(fd, file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	return d, nil
}

func listenOn(fd int, file *os.File) (*doorway, error) {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &doorway{file: file, raw: raw, port: at.(*unix.SockaddrInet4).Port}, nil
}

// accept waits for the next who comes. The error is os.ErrClosed once the doorway is closed.
func (d *doorway) accept() (net.Conn, error) {
	var fd int
	var failed error
	err := d.raw.Read(func(port uintptr) (done bool) {
		fd, _, failed = unix.Accept4(int(port), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil: // RawConn has no other reason
		return nil, os.ErrClosed
	case failed != nil:
		return nil, fmt.Errorf("accept a connection: %w", failed)
	}
	return connOf(fd, "MPI client")
}

// connOf is the connection behind a descriptor, which it takes over.
func connOf(fd int, name string) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return net.FileConn(file)
}

func (d *doorway) close() { _ = d.file.Close() }
