package comm

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// checkStore rejects a store on this host if another user took the port before rank 0 and serves the store. It cannot
// check stores on other hosts.
func checkStore(conn net.Conn) error {
	server, local := conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()
	if server.Addr().Unmap() != local.Addr().Unmap() && !server.Addr().IsLoopback() {
		return nil
	}
	sockets, err := peersocket.Listeners()
	if err != nil {
		return err
	}
	known := false
	for _, s := range sockets {
		if !listensAt(s, server) {
			continue
		}
		if s.UID != 0 && s.UID != os.Geteuid() {
			return fmt.Errorf("the port of the store, %v, is taken by user %d: "+
				"set MASTER_PORT to a port that is free", server, s.UID)
		}
		known = true
	}
	if !known {
		return fmt.Errorf("the port of the store, %v, answers, and no process that this one sees listens there: "+
			"set MASTER_PORT to a port that is free", server)
	}
	return nil
}

// listensAt reports whether a socket accepts connections to server.
func listensAt(s peersocket.Socket, server netip.AddrPort) bool {
	return s.State == unix.BPF_TCP_LISTEN && s.Local.Port() == server.Port() &&
		(s.Local.Addr().IsUnspecified() || s.Local.Addr() == server.Addr().Unmap())
}
