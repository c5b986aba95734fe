package tcpstore

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Config says where a server listens and which peers it serves. The zero Config listens on a free port of 127.0.0.1 and
// serves this process's user and root.
type Config struct {
	// Host is the IP address to listen at. "" and "localhost" are 127.0.0.1, "::" is every IPv4 and IPv6 address,
	// "0.0.0.0" every IPv4 address.
	Host string
	// Port is the TCP port, 0 for any free one.
	Port int
	// Allow reports whether to accept a peer of another host; nil accepts none. The server's goroutine calls it for each
	// connection, so that it must not block. See [AllowNetworks].
	Allow func(peer netip.Addr) bool
	// AllowLocalUsers accepts peers of all users of this host. By default they must belong to this process's user or to
	// root.
	AllowLocalUsers bool
	// AllowOption and AllowLocalUsersOption are the command-line options that widen Allow and set AllowLocalUsers, such as
	// "--allow-from", for hints in the log. "" gives no hint.
	AllowOption, AllowLocalUsersOption string
	// Limits bounds what peers may use.
	Limits Limits
	// Logf logs a line when a peer is refused or disconnected for what it did, once for each kind of fault and peer: an
	// address, and a process if known. What peers sent is quoted. The server's goroutine calls it, and all clients wait
	// while it blocks. nil logs nothing.
	Logf func(format string, args ...any)
}

// Server serves one store, which is empty at first. Its methods may be called from several goroutines at once.
type Server struct {
	addr    netip.AddrPort
	clients atomic.Int64
	ended   chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	ending   bool          // no more requests
	requests []func(*loop) // for the goroutine, in order
	wakeup   int           // eventfd that signals requests
	first    *os.File      // see waitForFirst
	unused   *loop         // whose goroutine has had nothing to do so far; nil: it uses the loop
}

// Listen starts a server. When it returns, clients can connect.
func Listen(cfg Config) (*Server, error) {
	fd, addr, err := bind(cfg.Host, cfg.Port)
	if err != nil {
		return nil, err
	}
	return start(cfg, fd, addr)
}

// start starts a server, which owns the listening socket, even if it fails.
func start(cfg Config, listener int, addr netip.AddrPort) (*Server, error) {
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Server{addr: addr, ended: make(chan struct{})}
	l, err := newLoop(s, cfg, listener)
	if err != nil {
		return nil, err
	}
	s.unused = l
	go s.serve(l)
	return s, nil
}

// Addr returns the address where the server listens or, after [ListenNowhere], the one given there.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Clients returns how many connections have sent the greeting of a store client so far.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Close closes the server and all connections, and returns when they are closed. It may be called again.
func (s *Server) Close() error {
	s.enqueue(func(l *loop) { l.over = true }, true)
	<-s.ended
	return nil
}

// Done returns a channel that is closed when the server has ended, by [Server.Close] or after an error, which is
// logged.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Snapshot is the state of a store at one moment.
type Snapshot struct {
	Connections int   // open, of clients or not
	Waiting     int   // in a WAIT or BARRIER
	Keys        int   // without queues
	Memory      int64 // in bytes, as for Limits.Memory
	Operations  int64 // requests served so far, without greetings
	Refused     int64 // connections refused, or disconnected for what they did, so far
	Progress    int64 // as returned by rendezvous.Engine.Progress
}

// Snapshot returns the state of the store, zero if the server is closed.
func (s *Server) Snapshot() Snapshot { return query(s, (*loop).snapshot) }

// Wait is a connection in a WAIT or BARRIER.
type Wait struct {
	Peer netip.AddrPort
	// PID is the process ID that the client sent, as PyTorch's do since 2.5, or 0.
	PID int
	// Keys are the first of the missing keys, under the names that the program uses.
	Keys []string
	// Missing is the number of missing keys.
	Missing int
}

// waitKeys bounds Wait.Keys.
const waitKeys = 4

// Waits returns the connections that wait, none if the server is closed.
func (s *Server) Waits() []Wait { return query(s, (*loop).waits) }

// query returns what f returns in the server's goroutine, or zero if the server is closed. It does not wake a
// goroutine that has had nothing to do.
func query[T any](s *Server, f func(*loop) T) (result T) {
	s.mu.Lock()
	if l := s.unused; l != nil && len(s.requests) == 0 {
		defer s.mu.Unlock()
		return f(l)
	}
	s.mu.Unlock()
	reply := make(chan T, 1)
	s.enqueue(func(l *loop) { reply <- f(l) }, false)
	select {
	case result = <-reply:
	case <-s.ended:
	}
	return result
}

// enqueue has the server's goroutine call request, and reports whether it will. last refuses all later calls.
func (s *Server) enqueue(request func(*loop), last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.ending = last
	s.requests = append(s.requests, request)
	one := [8]byte{1}
	_, _ = unix.Write(s.wakeup, one[:]) // fails only if the counter is full, and then it is readable anyway
	if s.first != nil {
		_ = s.first.SetReadDeadline(time.Unix(1, 0))
	}
	return true
}

func (s *Server) takeRequests() []func(*loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var count [8]byte
	_, _ = unix.Read(s.wakeup, count[:])
	requests := s.requests
	s.requests, s.unused = nil, nil
	return requests
}

func (s *Server) serve(l *loop) {
	defer close(s.ended)
	s.waitForFirst(l.firstEvent())
	for _, request := range s.takeRequests() {
		request(l)
	}
	if !l.over {
		l.closePending() // before a wait that may have no end
		l.run()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending, l.over = true, true
	for _, request := range s.requests { // left if epoll failed
		request(l)
	}
	l.close()
}

// waitForFirst waits in Go's own poller until there is something to do. A blocked system call would occupy a thread,
// whose start is the largest cost for a job that never uses the store.
func (s *Server) waitForFirst(fd int) {
	if !s.poll(fd) {
		return // the loop will find the error
	}
	if raw, err := s.first.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n != 0 || err != nil
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.first.Close()
	s.first = nil
}

// poll gives Go's poller a duplicate of a descriptor, unless there is a request already.
func (s *Server) poll(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) > 0 {
		return false
	}
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s.first = os.NewFile(uintptr(copied), "store")
	return true
}

// prepare opens what the loop needs besides the listening socket, which may be -1.
func (s *Server) prepare(listener int) (epoll int, err error) {
	if listener >= 0 {
		if err = setOptions(listener); err == nil {
			err = unix.Listen(listener, backlog)
		}
		if err != nil {
			return -1, fmt.Errorf("listen: %w", err)
		}
	}
	if epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, fmt.Errorf("epoll_create1: %w", err)
	}
	if s.wakeup, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(epoll)
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	return epoll, nil
}

// backlog bounds the connections that wait to be accepted, since all ranks of a job connect at once. The kernel lowers
// it to net.core.somaxconn.
const backlog = 1 << 16

// setOptions sets the options of connections, on each of them or on the socket that accepts them, which passes them on.
// Replies are sent at once. A host that died is noticed within two minutes: waiting clients send nothing.
func setOptions(socket int) error {
	for _, option := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 6},
	} {
		if err := unix.SetsockoptInt(socket, option.level, option.name, option.value); err != nil {
			return err
		}
	}
	return nil
}
