package tcpstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// PortTakenError says that another socket has the port. [Holder] finds the process.
type PortTakenError struct {
	Host string
	Port int
	Err  error
	// Claimant is the process that has reserved the port without listening on it, as [Reserve] does, or 0.
	Claimant int
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("bind %s port %d: %v", e.Host, e.Port, e.Err)
}

func (e *PortTakenError) Unwrap() error { return e.Err }

// Explain says which process has the port, as far as this user may know.
func (e *PortTakenError) Explain() string {
	text := fmt.Sprintf("port %d is taken", e.Port)
	if e.Claimant != 0 {
		return text + fmt.Sprintf(" by another job (gorun, pid %d)", e.Claimant)
	}
	if pid, name, ok := Holder(e.Port); ok {
		text += fmt.Sprintf(" by %s (pid %d)", name, pid)
	}
	return text
}

// bind returns a socket bound to host and port, and its address. It sets SO_REUSEADDR, since connections of an earlier
// job in TIME_WAIT must not keep the port.
func bind(host string, port int) (fd int, addr netip.AddrPort, err error) {
	ip, err := address(host)
	if err != nil {
		return -1, addr, err
	}
	if port < 0 || port > 65535 {
		return -1, addr, fmt.Errorf("bind %s port %d: ports are 0 to 65535", host, port)
	}
	fd, err = socket(ip, port)
	if err == nil {
		if addr, err = boundTo(fd); err == nil {
			return fd, addr, nil
		}
		unix.Close(fd)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return -1, addr, &PortTakenError{Host: ip.String(), Port: port, Err: err}
	}
	return -1, addr, fmt.Errorf("bind %s port %d: %w", ip, port, err)
}

// address parses the host to listen at. Names other than localhost are not looked up, since that may hang.
func address(host string) (netip.Addr, error) {
	if host == "" || host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return ip, fmt.Errorf("bind %q: use an IP address without a zone, not a name", host)
	}
	return ip.Unmap(), nil
}

func socket(ip netip.Addr, port int) (fd int, err error) {
	fd, err = unix.Socket(family(ip), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) && ip == netip.IPv6Unspecified() {
		return socket(netip.IPv4Unspecified(), port) // "::" on a host without IPv6
	}
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil && ip == netip.IPv6Unspecified() {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // accept IPv4, too
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(ip, port))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(ip netip.Addr, port int) unix.Sockaddr {
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: ip.As16()}
}

// boundTo returns the local address of a socket.
func boundTo(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrPort(sa), nil
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// acceptFrom accepts a connection, and returns its remote end and device. It does not allocate.
func acceptFrom(listener int) (fd int, c peersocket.Ends, errno unix.Errno) {
	var at unix.RawSockaddrInet6 // large enough for IPv4, too
	size := uint32(unsafe.Sizeof(at))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&at)),
		uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, c, errno
	}
	port := (*[2]byte)(unsafe.Pointer(&at.Port))
	remote := netip.AddrFrom16(at.Addr).Unmap()
	if at.Family == unix.AF_INET {
		remote = netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&at)).Addr)
	} else {
		c.Device = at.Scope_id
	}
	c.Remote = netip.AddrPortFrom(remote, binary.BigEndian.Uint16(port[:]))
	return int(n), c, 0
}

// The two system calls of every request. They never block, so that they skip the scheduler, which matters at 150,000
// requests a second, and never raise SIGPIPE.

func receive(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// send sends the beginning of p. more says that other bytes follow at once and may share its packets.
func send(fd int, p []byte, more bool) (int, unix.Errno) {
	flags := uintptr(unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL)
	if more {
		flags |= unix.MSG_MORE
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), flags, 0, 0)
	return int(n), errno
}
