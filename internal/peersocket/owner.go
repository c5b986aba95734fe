// Package peersocket asks the kernel whether the other end of a TCP connection is on this host, and who owns it.
// Nothing
// that the peer sends affects the answer.
package peersocket

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Owner is the owner of a socket.
type Owner struct {
	// UID is the user that made the socket, in this process's user namespace.
	UID int
	// Inode is the number under which /proc/PID/fd lists the socket.
	Inode uint64
}

// ErrUnknown reports that no process of this host and network namespace has the other end open. That includes a peer
// that
// has closed its socket already: the kernel would name root as the owner.
var ErrUnknown = errors.New("no process on this host has its other end open")

// Finder finds owners of sockets in the network namespace of its first use. The zero Finder is ready, and not safe for
// concurrent use. It keeps netlink sockets open until [Finder.Close].
type Finder struct {
	diag, route netlink
	works       bool // netlink has found a socket before
	buffer      [answerSize]byte
}

// Close closes the netlink sockets. The Finder may be used again.
func (f *Finder) Close() {
	f.diag.close()
	f.route.close()
}

// Owner returns the owner of the other end of a TCP connection, or [ErrUnknown]. Without netlink (seccomp, gVisor), it
// reads the tables in /proc/net, which takes longer the more sockets there are.
func (f *Finder) Owner(c Ends) (Owner, error) {
	owner, err := f.query(c.reversed())
	if err == nil || f.works && errors.Is(err, ErrUnknown) {
		return owner, err
	}
	if _, err := f.query(c); err == nil { // netlink works, as it finds our own end
		return Owner{}, ErrUnknown
	}
	return findInTables(c.reversed())
}

// Trusted reports whether the owner is this process's user or root.
func (o Owner) Trusted() bool {
	return (o.UID == 0 || o.UID == os.Geteuid()) && o.UID != overflowUID()
}

// overflowUID returns the user id of users outside this process's user namespace, -1 if it has all
// users. A
// process that runs as this user must not trust them.
var overflowUID = sync.OnceValue(func() int {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && strings.Join(strings.Fields(string(users)), " ") == "0 0 4294967295" {
		return -1
	}
	const usual = 65534
	uid := usual
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		_, _ = fmt.Sscan(string(text), &uid)
	}
	return uid
})

// Ends are the addresses of a connected TCP socket. IPv4 addresses are never in IPv6 form.
type Ends struct {
	Local, Remote netip.AddrPort
	// Device is the interface of a link-local address, 0 for others.
	Device uint32
}

func (c Ends) reversed() Ends { return Ends{c.Remote, c.Local, c.Device} }

// EndsOf returns the addresses of a socket.
func EndsOf(fd int) (c Ends, err error) {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return c, fmt.Errorf("getsockname: %w", err)
	}
	remote, err := unix.Getpeername(fd)
	if err != nil {
		return c, fmt.Errorf("getpeername: %w", err)
	}
	c.Local, _ = addressOf(local)
	c.Remote, c.Device = addressOf(remote)
	if !c.Local.IsValid() || !c.Remote.IsValid() {
		return c, errors.New("not a TCP connection")
	}
	return c, nil
}

func addressOf(at unix.Sockaddr) (address netip.AddrPort, device uint32) {
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), 0
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr).Unmap(), uint16(at.Port)), at.ZoneId
	}
	return address, 0
}
