package tcpstore

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// withoutReuse clears SO_REUSEADDR, which package net sets.
func withoutReuse(_, _ string, c syscall.RawConn) (err error) {
	if failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
	}); failed != nil {
		return failed
	}
	return err
}
