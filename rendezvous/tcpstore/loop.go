package tcpstore

import (
	"container/list"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
	"gorun/rendezvous"
)

// chunk is how many bytes are read at once from a connection between requests. It bounds how long other connections
// wait.
const chunk = 32 << 10

// bulk is chunk for the inside of a large request, which is only copied.
const bulk = 256 << 10

// batch is how many events are handled, and how many connections accepted, at a time.
const batch = 256

// loop is the state of the server's goroutine.
type loop struct {
	server   *Server
	cfg      Config
	epoll    int
	listener int // -1 if connections are passed to Take
	engine   *rendezvous.Engine
	over     bool

	conns   []*conn // by descriptor
	open    int     // number of conns
	hosts   map[netip.Addr]*host
	members map[processID]*member
	held    int64   // bytes that connections hold, see conn.holds
	served  int64   // requests
	refused int64   // connections refused, or closed for what they did
	closing []*conn // to be closed at the end of the turn
	current *conn   // that is being served

	ungreeted list.List // of connections before their greeting, oldest first

	acceptReady bool      // the listener has a connection
	wasFull     bool      // connections could not be accepted before
	acceptAgain time.Time // unless zero, the listener is not watched until then, for lack of descriptors or connections

	peers      peersocket.Finder
	complaints complaints
	in         []byte   // read buffer
	out        []byte   // replies to the current connection
	keys       [][]byte // of the current request
}

// newLoop owns the listening socket, even if it fails.
func newLoop(s *Server, cfg Config, listener int) (*loop, error) {
	epoll, err := s.prepare(listener)
	if err != nil {
		closeSocket(listener)
		return nil, err
	}
	return &loop{
		server: s, cfg: cfg, epoll: epoll, listener: listener,
		engine: rendezvous.NewEngine(), hosts: map[netip.Addr]*host{}, members: map[processID]*member{},
		complaints: complaints{logf: cfg.Logf},
	}, nil
}

// run serves until it is over. Connections that fail are closed at the end of a turn: until then, a descriptor means
// the same connection in all events of the turn, and the engine is not changed while it wakes a waiter.
func (l *loop) run() {
	// Staying on the thread that returns from epoll_wait saves 5 % of the cycles. The thread ends with the goroutine.
	runtime.LockOSThread()
	l.in = make([]byte, chunk)
	events := make([]unix.EpollEvent, batch)
	err := l.watch(unix.EPOLL_CTL_ADD, l.server.wakeup, unix.EPOLLIN)
	if err == nil && l.listener >= 0 {
		err = l.watch(unix.EPOLL_CTL_ADD, l.listener, unix.EPOLLIN)
	}
	for err == nil && !l.over {
		var n int
		n, err = unix.EpollWait(l.epoll, events, l.pollTimeout())
		if err == unix.EINTR {
			n, err = 0, nil
		}
		for i := range events[:max(n, 0)] {
			l.handle(int(events[i].Fd), events[i].Events)
		}
		l.expire()
		l.closePending()
		l.accept()
	}
	if err != nil {
		l.cfg.Logf("the store at %v failed: %v", l.server.addr, err)
	}
}

func (l *loop) watch(act, fd int, events uint32) error {
	if err := unix.EpollCtl(l.epoll, act, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// pollTimeout returns how long to wait for events, in milliseconds; -1 is for ever.
func (l *loop) pollTimeout() int {
	first := l.oldestUngreeted()
	if first == nil && l.acceptAgain.IsZero() {
		return -1
	}
	next := l.acceptAgain
	if first != nil && (next.IsZero() || first.until.Before(next)) {
		next = first.until
	}
	return int(max(time.Until(next)+time.Millisecond-1, 0) / time.Millisecond)
}

// handle handles one event.
func (l *loop) handle(fd int, events uint32) {
	switch fd {
	case l.listener:
		l.acceptReady = true
	case l.server.wakeup:
		for _, request := range l.server.takeRequests() {
			request(l)
		}
	default:
		c := l.conns[fd]
		l.current = c
		l.serve(c, events)
		l.current = nil
	}
}

// expire closes connections without a greeting in time.
func (l *loop) expire() {
	for c := l.oldestUngreeted(); c != nil && !time.Now().Before(c.until); c = l.oldestUngreeted() {
		l.fail(c, faultSilent, fmt.Errorf("no greeting from a store client within %v", l.cfg.Limits.Greeting))
	}
}

// closePending closes the connections in closing. That may wake others, which may have to be closed for it.
func (l *loop) closePending() {
	for i := 0; i < len(l.closing); i++ {
		c := l.closing[i]
		l.engine.Cancel(&c.waiter)
		l.held -= c.holds
		c.host.held -= c.holds
		c.host.open--
		if c.member != nil {
			c.member.open--
		}
		l.forgetHost(c.host)
		// A child between fork and exec may hold the socket open for a while.
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
		unix.Close(c.fd)
		l.conns[c.fd] = nil
		l.open--
		l.closing[i] = nil
	}
	if len(l.closing) > 0 && !l.acceptAgain.IsZero() {
		l.acceptAgain = time.Now()
	}
	l.closing = l.closing[:0]
}

// close closes everything that the loop owns.
func (l *loop) close() {
	closeSocket(l.listener)
	for _, c := range l.conns {
		if c != nil {
			unix.Close(c.fd)
		}
	}
	l.peers.Close()
	unix.Close(l.epoll)
	unix.Close(l.server.wakeup)
}

func closeSocket(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// firstEvent returns the descriptor that becomes readable when there is something to do.
func (l *loop) firstEvent() int {
	if l.listener < 0 {
		return l.server.wakeup
	}
	return l.listener
}

func (l *loop) snapshot() Snapshot {
	waiting := 0
	for _, c := range l.conns {
		if c != nil && c.waiter.Waiting() {
			waiting++
		}
	}
	return Snapshot{
		Connections: l.open, Waiting: waiting, Keys: l.engine.NumKeys(), Memory: l.held + l.engine.Size(),
		Operations: l.served, Refused: l.refused, Progress: l.engine.Progress(),
	}
}

func (l *loop) waits() (waits []Wait) {
	for _, c := range l.conns {
		if c == nil || !c.waiter.Waiting() {
			continue
		}
		w := Wait{Peer: c.peer, PID: int(c.pid)}
		for name := range c.waiter.Missing {
			if w.Missing++; len(w.Keys) < waitKeys {
				key := strings.TrimPrefix(regrouped(name), "/")
				w.Keys = append(w.Keys, key)
			}
		}
		waits = append(waits, w)
	}
	return waits
}
