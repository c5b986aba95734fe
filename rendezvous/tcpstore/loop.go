package tcpstore

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
	"gorun/rendezvous"
)

// chunk is how much is read at once from a connection in between requests. It bounds how long the others wait for their
// turn: it takes about as many microseconds as there are such requests in it.
const chunk = 32 << 10

// bulk is the same for the inside of a large request, where there is only copying to do.
const bulk = 256 << 10

// batch is how many connections have their turn, and how many are accepted, between two looks at the clock.
const batch = 256

// loop is what the server's goroutine owns.
type loop struct {
	server   *Server
	cfg      Config
	epoll    int
	listener int // -1: none, connections are handed over
	engine   *rendezvous.Engine
	over     bool

	conns   []*conn // by descriptor
	open    int     // how many there are
	hosts   map[netip.Addr]*host
	members map[processID]*member
	held    int64   // bytes that connections hold; see conn.holds
	served  int64   // requests
	refused int64   // connections that were refused, or disconnected for what they did
	doomed  []*conn // to be closed at the end of the turn
	current *conn   // whose turn it is

	unknownFirst *conn // those that have not greeted yet, in the order in which they came
	unknownLast  *conn

	acceptReady bool      // the listener has somebody
	crowded     bool      // that was necessary before
	acceptAgain time.Time // not zero: the listener is not watched until then, for want of descriptors or connections

	peers      peersocket.Finder
	complaints complaints
	in         []byte   // what is read, before it is known whether it has to be kept
	out        []byte   // answers of the current connection
	keys       [][]byte // of the current request
}

// newLoop takes the listening socket, also when it fails.
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

// run serves until it is over. What connections fail with is noted and done at the end of a turn: until then a
// descriptor names the same connection in all events of the turn, and the engine is not changed while it wakes
// somebody.
func (l *loop) run() {
	// the thread that comes back from epoll_wait goes on: one in twenty cycles less. It ends with the goroutine.
	runtime.LockOSThread()
	l.in = make([]byte, chunk)
	events := make([]unix.EpollEvent, batch)
	err := l.watch(unix.EPOLL_CTL_ADD, l.server.bell, unix.EPOLLIN)
	if err == nil && l.listener >= 0 {
		err = l.watch(unix.EPOLL_CTL_ADD, l.listener, unix.EPOLLIN)
	}
	for err == nil && !l.over {
		var n int
		n, err = unix.EpollWait(l.epoll, events, l.patience())
		if err == unix.EINTR {
			n, err = 0, nil
		}
		for i := range events[:max(n, 0)] {
			l.turn(int(events[i].Fd), events[i].Events)
		}
		l.expire()
		l.bury()
		l.accept()
	}
	if err != nil {
		l.cfg.Logf("the store at %v ends: %v", l.server.addr, err)
	}
}

func (l *loop) watch(act, fd int, events uint32) error {
	if err := unix.EpollCtl(l.epoll, act, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// patience is how long to wait for events, in milliseconds; -1 is for ever.
func (l *loop) patience() int {
	if l.unknownFirst == nil && l.acceptAgain.IsZero() {
		return -1
	}
	next := l.acceptAgain
	if first := l.unknownFirst; first != nil && (next.IsZero() || first.until.Before(next)) {
		next = first.until
	}
	return int(max(time.Until(next)+time.Millisecond-1, 0) / time.Millisecond)
}

// turn is what one event asks for.
func (l *loop) turn(fd int, events uint32) {
	switch fd {
	case l.listener:
		l.acceptReady = true
	case l.server.bell:
		for _, question := range l.server.asked() {
			question(l)
		}
	default:
		c := l.conns[fd]
		l.current = c
		l.serve(c, events)
		l.current = nil
	}
}

// expire dooms those who have not greeted in time. The first one came first.
func (l *loop) expire() {
	if l.unknownFirst == nil {
		return
	}
	now := time.Now()
	for c := l.unknownFirst; c != nil && !now.Before(c.until); c = c.after {
		l.fail(c, faultSilent, fmt.Errorf("no greeting of a store client within %v", l.cfg.Limits.Greeting))
	}
}

// bury closes the doomed. That may wake others, which may doom them.
func (l *loop) bury() {
	for i := 0; i < len(l.doomed); i++ {
		c := l.doomed[i]
		l.engine.Leave(&c.waiter)
		l.greet(c)
		l.held -= c.holds
		c.host.held -= c.holds
		c.host.open--
		if c.member != nil {
			c.member.open--
		}
		l.forgetHost(c.host)
		// a child between fork and exec may hold the socket open for a while
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
		unix.Close(c.fd)
		l.conns[c.fd] = nil
		l.open--
		l.doomed[i] = nil
	}
	if len(l.doomed) > 0 && !l.acceptAgain.IsZero() {
		l.acceptAgain = time.Now()
	}
	l.doomed = l.doomed[:0]
}

// close ends everything that the loop owns.
func (l *loop) close() {
	closeSocket(l.listener)
	for _, c := range l.conns {
		if c != nil {
			unix.Close(c.fd)
		}
	}
	l.peers.Close()
	unix.Close(l.epoll)
	unix.Close(l.server.bell)
}

// closeSocket closes a socket, if there is one.
func closeSocket(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// comers is the descriptor that becomes readable when the first peer comes.
func (l *loop) comers() int {
	if l.listener < 0 {
		return l.server.bell
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
