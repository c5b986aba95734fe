// Package peersocket asks the kernel about the other end of a TCP connection: whether it is on this host, and then
// whose it is. No byte that the peer sends takes part in that.
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

// Owner is who has a socket.
type Owner struct {
	// UID is the user who made the socket, in this process's user namespace.
	UID int
	// Inode is the number under which /proc/PID/fd lists the socket.
	Inode uint64
}

// ErrUnknown says that no process of this host and network namespace has the other end open. A peer that sent something
// and closed at once is unknown: the kernel names root as the owner of a socket without a process.
var ErrUnknown = errors.New("no process on this host has its other end open")

// Finder finds owners. The zero Finder is ready for use, by one goroutine at a time, in the network namespace of the
// connections; it keeps a netlink socket open from its first use until [Finder.Close].
type Finder struct {
	diag, route netlink
	works       bool // the kernel has answered for a socket
	buffer      [answerSize]byte
}

// Close closes what the Finder keeps open. The Finder may be used again.
func (f *Finder) Close() {
	f.diag.close()
	f.route.close()
}

// Owner finds the owner of the other end of a TCP connection. [ErrUnknown] means that there is none. Where the kernel
// answers no questions about sockets (seccomp, gVisor), the tables in /proc/net are read, which takes longer the more
// sockets there are.
func (f *Finder) Owner(c Ends) (Owner, error) {
	owner, err := f.ask(c.reversed())
	if err == nil || f.works && errors.Is(err, ErrUnknown) {
		return owner, err
	}
	if _, err := f.ask(c); err == nil { // our own end is there: so the first answer holds
		return Owner{}, ErrUnknown
	}
	return inTables(c.reversed())
}

// Trusted reports whether the owner may use what belongs to this process: its own user may, and root.
func (o Owner) Trusted() bool {
	return (o.UID == 0 || o.UID == os.Geteuid()) && o.UID != overflow()
}

// overflow is the user id by which the kernel names users whom this process's user namespace does not know, -1 where it
// knows all: a process that runs as that user itself must not take them for its own.
var overflow = sync.OnceValue(func() int {
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

// Ends are the addresses of a connected TCP socket, those of IPv4 never in IPv6's notation.
type Ends struct {
	Local, Remote netip.AddrPort
	// Device is the interface of a link-local address, 0 for others.
	Device uint32
}

func (c Ends) reversed() Ends { return Ends{c.Remote, c.Local, c.Device} }

// EndsOf asks a socket.
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
