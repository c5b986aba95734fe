package tcpstore

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// claim announces a reserved port to other reservations on this host, in this network namespace: a TCP socket that is
// bound but does not listen is invisible, and a second one may be bound beside it.
//
// A claim is a Unix socket with an abstract name that consists of the port, this process's ID and a random part. It
// ends with the process. Any user may create such names, so that a claim only counts if the kernel says that it belongs
// to this user or to root; no connection is made, since another owner might not answer. The kernel reports owners since
// Linux 5.3, and before that no claim counts. If two processes claim a port at the same moment, each may see the other,
// and neither gets it.
func claim(port int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	prefix := fmt.Sprintf("gorun/port/%d/", port)
	own := fmt.Sprintf("%s%d/%s", prefix, os.Getpid(), rand.Text())
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + own}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("claim port %d: %w", port, err)
	}
	claims, _ := peersocket.ListNamed(prefix) // after an error no claim counts
	for _, c := range claims {
		if c.Name != own && c.Trusted() {
			unix.Close(fd)
			return -1, &PortTakenError{Port: port, Err: unix.EADDRINUSE, Claimant: claimant(strings.TrimPrefix(c.Name, prefix))}
		}
	}
	return fd, nil
}

// claimant returns the process that a claim names, 0 if none.
func claimant(name string) int {
	pid, _, _ := strings.Cut(name, "/")
	n, _ := strconv.ParseUint(pid, 10, 31)
	return int(n)
}
