package tcpstore

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// claim makes a reserved port known to other reservations of this host, in this network name space: a socket that is bound but does
// not listen is seen by nobody, and a second one may be bound beside it. The name goes with the process.
func claim(port int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("@gorun/port/%d", port)}
	if err = unix.Bind(fd, name); err == nil {
		err = unix.Listen(fd, 1)
	}
	if err == nil {
		return fd, nil
	}
	defer unix.Close(fd)
	if !errors.Is(err, unix.EADDRINUSE) {
		return -1, fmt.Errorf("claim port %d: %w", port, err)
	}
	return -1, &PortTakenError{Port: port, Err: err, Claimant: claimant(fd, name)}
}

// claimant is the process that has claimed a name; 0 if it cannot be asked.
func claimant(fd int, name unix.Sockaddr) int {
	if unix.Connect(fd, name) != nil {
		return 0
	}
	holder, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(holder.Pid)
}
