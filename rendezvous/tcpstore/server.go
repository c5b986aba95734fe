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

// Config says where a server listens and whom it serves. The zero Config is a free port on 127.0.0.1, for this
// process's user and root.
type Config struct {
	// Host is the IP address to listen at, IPv4 or IPv6; "" and "localhost" are 127.0.0.1, "::" is every address of
	// both kinds, "0.0.0.0" every IPv4 address.
	Host string
	// Port is the TCP port; 0 is a free one.
	Port int
	// Allow reports whether a peer that is not on this host is accepted; nil accepts none. The server's goroutine calls
	// it for each connection: it must not block. See [AllowNetworks].
	Allow func(peer netip.Addr) bool
	// AllowLocalUsers accepts every user of this host. Else a peer on this host must be a process of this process's
	// user or of root.
	AllowLocalUsers bool
	// AllowOption names the option by which a user widens Allow, such as "--allow-from", and AllowLocalUsersOption the
	// one that sets AllowLocalUsers, for the log; "" names none.
	AllowOption, AllowLocalUsersOption string
	// Limits bounds what peers may take.
	Limits Limits
	// Logf gets a line, without a newline, when a peer is refused or disconnected for what it did: one for each kind of
	// fault and peer, which is an address, and a process where that is known. What peers sent is quoted in it. The
	// server's goroutine calls it: everybody waits while it blocks. nil logs nothing.
	Logf func(format string, args ...any)
}

// Server serves a store that begins empty and ends with it.
type Server struct {
	addr    netip.AddrPort
	clients atomic.Int64
	ended   chan struct{} // closed when the goroutine is gone

	mu        sync.Mutex
	ending    bool          // no more questions
	questions []func(*loop) // to be asked in the goroutine, in this order
	bell      int           // eventfd that says there are some
	first     *os.File      // see firstPeer
}

// Listen opens a server. It can answer from the moment on that its port can be connected to.
func Listen(cfg Config) (*Server, error) {
	fd, addr, err := bind(cfg.Host, cfg.Port)
	if err != nil {
		return nil, err
	}
	return start(cfg, fd, addr)
}

// start has a server serve; it takes the listening socket, also when it fails.
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
	go s.serve(l)
	return s, nil
}

// Addr is where the server listens, or who hands connections to it by [Server.Take].
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Clients counts the connections so far that proved to be a store client's.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Close ends the server, its port and all connections, and returns when they are gone. It may be called again.
func (s *Server) Close() error {
	s.ask(func(l *loop) { l.over = true }, true)
	<-s.ended
	return nil
}

// Done is closed when the server has ended, by [Server.Close] or because the kernel failed it, which is logged.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Snapshot is how full a store is at one moment, and what it did until then.
type Snapshot struct {
	Connections int   // open ones, of clients or not
	Waiting     int   // those in a WAIT or BARRIER
	Keys        int   // queues not counted
	Memory      int64 // as Limits.Memory counts, in bytes
	Operations  int64 // requests that were carried out so far, greetings not counted
	Refused     int64 // connections that were refused, or disconnected for what they did
	Progress    int64 // as rendezvous.Engine.Progress counts
}

// Snapshot returns how full the store is; of a closed server, zero.
func (s *Server) Snapshot() Snapshot {
	answer := make(chan Snapshot, 1)
	s.ask(func(l *loop) { answer <- l.snapshot() }, false)
	select {
	case snapshot := <-answer:
		return snapshot
	case <-s.ended:
		return Snapshot{}
	}
}

// Wait is a connection that waits for something.
type Wait struct {
	Peer netip.AddrPort
	// PID is the process id that the client sent, as PyTorch's do since 2.5; 0 if it sent none.
	PID int
	// Keys are some of the keys that it waits for, as the client's caller names them.
	Keys []string
	// Missing counts all of them.
	Missing int
}

// waitKeys is how many keys of a Wait are named.
const waitKeys = 4

// Waits lists the connections that wait; of a closed server, none.
func (s *Server) Waits() []Wait {
	answer := make(chan []Wait, 1)
	s.ask(func(l *loop) { answer <- l.waits() }, false)
	select {
	case waits := <-answer:
		return waits
	case <-s.ended:
		return nil
	}
}

// ask has the server's goroutine run question, unless that is ending; a loop that is over by then runs it, too.
func (s *Server) ask(question func(*loop), last bool) (asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.ending = last
	s.questions = append(s.questions, question)
	ring := [8]byte{1}
	_, _ = unix.Write(s.bell, ring[:]) // it fails only when the counter is full, and then the bell rings anyway
	if s.first != nil {
		_ = s.first.SetReadDeadline(time.Unix(1, 0))
	}
	return true
}

func (s *Server) asked() []func(*loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rung [8]byte
	_, _ = unix.Read(s.bell, rung[:])
	questions := s.questions
	s.questions = nil
	return questions
}

func (s *Server) serve(l *loop) {
	defer close(s.ended)
	s.firstPeer(l.comers())
	l.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending, l.over = true, true
	for _, question := range s.questions { // there are some where the kernel failed the loop
		question(l)
	}
	l.close()
}

// firstPeer waits in Go's own poller until there is something to do. A blocked system call would hold a thread, and
// starting that costs a job that never meets in the store more than everything else here.
func (s *Server) firstPeer(comers int) {
	if !s.poll(comers) {
		return // the loop finds out what is wrong
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

// poll gives Go's poller a descriptor of its own for the one that tells of comers, unless there is a question already.
func (s *Server) poll(comers int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.questions) > 0 {
		return false
	}
	copied, err := unix.FcntlInt(uintptr(comers), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s.first = os.NewFile(uintptr(copied), "store")
	return true
}

// prepare opens what the loop needs around the listening socket, which it owns from then on; -1 is none.
func (s *Server) prepare(listener int) (epoll int, err error) {
	if listener >= 0 {
		if err = inherited(listener); err == nil {
			err = unix.Listen(listener, backlog)
		}
		if err != nil {
			return -1, fmt.Errorf("listen: %w", err)
		}
	}
	if epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, fmt.Errorf("epoll_create1: %w", err)
	}
	if s.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(epoll)
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	return epoll, nil
}

// backlog is how many connections the kernel may hold until they are accepted: all ranks of a job come at once. It
// takes net.core.somaxconn where that is less.
const backlog = 1 << 16

// inherited sets the options of connections, on each or on the socket that accepts them, which hands them on: answers
// leave at once, and a host that died is noticed within two minutes, since clients neither ask for keepalive nor say
// anything while they wait.
func inherited(socket int) error {
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
