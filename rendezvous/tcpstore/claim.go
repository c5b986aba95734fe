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

// claim makes a reserved port known to other reservations of this host, in this network namespace: a TCP socket that is
// bound but does not listen is seen by nobody, and a second one may be bound beside it.
//
// A claim is a unix socket with an abstract name that has the port, this process's id and a random part. It goes with
// the process. Every user may make such names: so nobody can take a name before us, a claim counts only if the kernel
// says that it is this user's or root's, and nobody is connected to, who might not answer. The kernel tells owners
// since Linux 5.3; where it does not, no claim counts. Of two who claim a port at the same moment each may see the
// other, and neither gets it.
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
	claims, _ := peersocket.ListNamed(prefix) // an error: no claim counts
	for _, c := range claims {
		if c.Name != own && c.Trusted() {
			unix.Close(fd)
			return -1, &PortTakenError{Port: port, Err: unix.EADDRINUSE, Claimant: claimant(strings.TrimPrefix(c.Name, prefix))}
		}
	}
	return fd, nil
}

// claimant is the process that a claim names, 0 if none.
func claimant(name string) int {
	pid, _, _ := strings.Cut(name, "/")
	n, _ := strconv.ParseUint(pid, 10, 31)
	return int(n)
}
