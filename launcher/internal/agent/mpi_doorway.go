package agent

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// doorway is a port of 127.0.0.1 to which PMIx clients come, or PMI's where they have no descriptor. It is made by
// system calls: net.Listen takes a tenth of a millisecond longer, for which each job would wait. Clients may come from
// the beginning, and wait there until begin.
type doorway struct {
	port     int
	file     *os.File
	listener net.Listener // from begin on
}

// backlog of those who have not been let in; the kernel has a limit of its own.
const backlog = 4096

func openDoorway() (*doorway, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	d := &doorway{file: os.NewFile(uintptr(fd), "port for PMIx")}
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

// begin reports whether somebody can be let in from now on.
func (d *doorway) begin() bool {
	l, err := net.FileListener(d.file)
	d.listener = l
	return err == nil
}

func (d *doorway) close() {
	_ = d.file.Close()
	if d.listener != nil {
		_ = d.listener.Close()
	}
}

// newConn is the connection behind a descriptor of a socket, which it takes over.
func newConn(fd int, name string) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return net.FileConn(file)
}
