package tcpstore

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gorun/rendezvous/internal/table"
)

// Config says where a server listens and whom it serves.
type Config struct {
	// Host is the IP address to listen at; "" is 127.0.0.1, "::" or "0.0.0.0" all.
	Host string
	// Port is the TCP port; 0 takes a free one.
	Port int
	// Allow are networks whose peers are served, beside this host's own loopback
	// addresses. Others are refused, each logged once.
	Allow []netip.Prefix
	// Limits bound what one client may ask for.
	Limits Limits
	// Logf receives a line for each peer that was refused or cut off; nil drops it.
	Logf func(format string, args ...any)
}

// PortTakenError says that somebody else listens at the wished port.
type PortTakenError struct {
	Host string
	Port int
	Err  error
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("listen at port %d of %s: %v", e.Port, e.Host, e.Err)
}

func (e *PortTakenError) Unwrap() error { return e.Err }

// Server serves one store. Everything of it but its counters belongs to one
// goroutine, which orders all operations: no lock, and no connection can hold up
// another.
type Server struct {
	cfg      Config
	addr     netip.AddrPort
	fd       int
	listener *os.File      // of fd, once Go's poller knows it
	polled   chan struct{} // closed then
	wake     int           // eventfd: Close wants the loop to end
	done     chan struct{}
	closing  sync.Once
	clients  atomic.Int64

	loop loop
}

// backlog is the length of the queue of new connections; the kernel takes
// net.core.somaxconn if that is less. All ranks of a job connect at once.
const backlog = 1 << 16

// Listen opens a store that is empty. It is served from this moment on: a client
// that connects at once waits for an answer without a time limit.
func Listen(cfg Config) (*Server, error) {
	cfg.Limits.fill()
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	fd, addr, err := bind(cfg.Host, cfg.Port, false)
	if err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		_ = unix.Close(fd)
		return nil, bindError(cfg.Host, cfg.Port, "listen", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen: eventfd: %w", err)
	}
	s := &Server{cfg: cfg, addr: addr, fd: fd, wake: wake, done: make(chan struct{}), polled: make(chan struct{})}
	s.loop = loop{server: s, accept: fd, conns: map[int32]*conn{}, table: table.New(), logged: map[netip.Addr]bool{}}
	s.loop.parser.limits = &s.cfg.Limits
	go s.serve()
	return s, nil
}

// Addr is where the store listens.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Clients is the number of connections so far that turned out to be clients.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Close ends the store and all connections to it.
func (s *Server) Close() error {
	s.closing.Do(func() {
		_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd that is full wakes as well
		<-s.polled
		_ = s.listener.SetReadDeadline(time.Now()) // ends the wait for the first client
	})
	<-s.done
	return nil
}

// serve waits for the first client in Go's own poller, which takes no thread,
// and then serves on one of its own.
func (s *Server) serve() {
	defer close(s.done)
	defer unix.Close(s.wake)
	s.listener = os.NewFile(uintptr(s.fd), "store")
	close(s.polled)
	defer s.listener.Close()
	if !s.firstClient() {
		return
	}
	if err := s.loop.run(); err != nil {
		s.cfg.Logf("the store stopped: %v", err)
	}
}

func (s *Server) firstClient() bool {
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
	return err == nil
}

// bind makes a socket with an address. A host that is no IP address is an error:
// names are for people, and their look-up may take for ever.
func bind(host string, port int, reuse bool) (fd int, addr netip.AddrPort, err error) {
	if host == "" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return -1, addr, fmt.Errorf("listen at %q: not an IP address", host)
	}
	family, sa := sockaddr(ip, port)
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, addr, fmt.Errorf("listen: socket: %w", err)
	}
	if family == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // IPv4 clients too
	}
	if reuse || port != 0 { // a port named by the user may be in TIME_WAIT from its last job
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err = unix.Bind(fd, sa); err == nil {
		addr, err = boundTo(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, addr, bindError(host, port, "bind", err)
	}
	return fd, addr, nil
}

func sockaddr(ip netip.Addr, port int) (family int, sa unix.Sockaddr) {
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: ip.As16()}
}

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

func bindError(host string, port int, act string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) && port != 0 {
		return &PortTakenError{Host: host, Port: port, Err: err}
	}
	return fmt.Errorf("listen at %s port %d: %s: %w", host, port, act, err)
}

// Reservation keeps a port for somebody who binds it with SO_REUSEADDR, as
// PyTorch's own store does, and from everybody else: it is bound, but nobody
// listens.
type Reservation struct {
	fd   int
	addr netip.AddrPort
}

// Reserve reserves a port; 0 takes a free one.
func Reserve(host string, port int) (*Reservation, error) {
	fd, addr, err := bind(host, port, true)
	if err != nil {
		return nil, err
	}
	return &Reservation{fd: fd, addr: addr}, nil
}

// Addr is the reserved port with its address.
func (r *Reservation) Addr() netip.AddrPort { return r.addr }

// Close gives the port free.
func (r *Reservation) Close() error { return unix.Close(r.fd) }
