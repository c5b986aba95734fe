package tcpstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"gorun/rendezvous/internal/table"
)

// Timing of a server.
const (
	helloLimit  = 30 * time.Second // a peer that is no client by then is cut off
	acceptPause = time.Second      // after running out of descriptors
	tick        = time.Second      // how often limits of time are looked at
)

// loop is the server's one thread.
type loop struct {
	server *Server
	accept int // listening socket
	ep     int
	conns  map[int32]*conn
	table  *table.Table
	parser parser
	logged map[netip.Addr]bool

	strangers int       // connections that have not said hello
	pausedTo  time.Time // no accepting until then
	spare     []byte    // space for somebody's next answer
	buf       []byte    // what is read next; made with the first client
}

// readSize is how much is read at once, in bytes.
const readSize = 256 << 10

// run serves until Close.
func (l *loop) run() (err error) {
	if l.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	defer l.end()
	l.buf = make([]byte, readSize)
	for _, fd := range []int{l.accept, l.server.wake} {
		if err := l.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(l.ep, events, l.timeout())
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd == int32(l.server.wake) {
				return nil
			}
			l.handle(ev)
		}
		l.expire()
	}
}

func (l *loop) control(act, fd int, events uint32) error {
	err := unix.EpollCtl(l.ep, act, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// end closes everything but the listening socket.
func (l *loop) end() {
	for _, c := range l.conns {
		_ = unix.Close(int(c.fd))
	}
	_ = unix.Close(l.ep)
}

func (l *loop) timeout() int {
	if l.strangers == 0 && l.pausedTo.IsZero() {
		return -1
	}
	return int(tick / time.Millisecond)
}

func (l *loop) handle(ev unix.EpollEvent) {
	if ev.Fd == int32(l.accept) {
		l.acceptAll()
		return
	}
	c := l.conns[ev.Fd]
	if c == nil {
		return // closed by an earlier event of this turn
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		c.flush()
		c.resume()
	}
	if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 && !c.closed {
		c.receive()
	}
}

// acceptAll takes all new connections. Without descriptors the accept queue is
// left alone for a moment: it would be reported again and again.
func (l *loop) acceptAll() {
	for {
		fd, sa, err := unix.Accept4(l.accept, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			l.admit(fd, addrPort(sa))
		case err == unix.EINTR || err == unix.ECONNABORTED:
		case err == unix.EAGAIN:
			return
		default:
			l.log(netip.Addr{}, "the store cannot accept more clients at the moment: %v (%d are connected; see ulimit -n)", err, len(l.conns))
			l.pausedTo = time.Now().Add(acceptPause)
			_ = l.control(unix.EPOLL_CTL_DEL, l.accept, 0)
			return
		}
	}
}

func (l *loop) admit(fd int, peer netip.AddrPort) {
	switch {
	case !l.allowed(peer.Addr()):
		l.log(peer.Addr(), "the store refused %v: not an address of this job; --allow-from %v lets it in", peer.Addr(), peer.Addr())
	case len(l.conns) >= l.server.cfg.Limits.Connections:
		l.log(peer.Addr(), "the store refused %v: it has %d connections, which is the limit", peer, len(l.conns))
	default:
		c := &conn{loop: l, fd: int32(fd), peer: peer, since: time.Now()}
		l.tune(fd)
		if l.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) == nil {
			l.conns[c.fd] = c
			l.strangers++
			return
		}
	}
	_ = unix.Close(fd)
}

// tune has small answers sent at once and dead hosts noticed: PyTorch's clients
// do not ask for keepalive, and a client that waits may be silent for weeks.
func (l *loop) tune(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 30)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10)
}

func (l *loop) allowed(peer netip.Addr) bool {
	if peer.IsLoopback() || peer == l.server.addr.Addr() {
		return true
	}
	for _, p := range l.server.cfg.Allow {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// log says something about a peer, once.
func (l *loop) log(peer netip.Addr, format string, args ...any) {
	if !l.logged[peer] {
		l.logged[peer] = true
		l.server.cfg.Logf(format, args...)
	}
}

// expire cuts off peers that never said hello, and takes up accepting again.
func (l *loop) expire() {
	if l.strangers == 0 && l.pausedTo.IsZero() {
		return
	}
	now := time.Now()
	if !l.pausedTo.IsZero() && now.After(l.pausedTo) {
		l.pausedTo = time.Time{}
		_ = l.control(unix.EPOLL_CTL_ADD, l.accept, unix.EPOLLIN)
	}
	for _, c := range l.conns {
		if !c.known && now.Sub(c.since) > helloLimit {
			c.cut(errors.New("it said nothing"))
		}
	}
}

// serve carries out one request. Errors end the connection.
func (l *loop) serve(c *conn, r *request) error {
	t := l.table
	switch r.op {
	case opValidate:
		return errors.New("a second VALIDATE")
	case opSet:
		t.Set(string(r.texts[0]), keep(r.texts[1]))
	case opCompareSet:
		c.value(t.CompareSet(string(r.texts[0]), keep(r.texts[1]), keep(r.texts[2])))
	case opGet:
		v, _ := t.Get(r.texts[0])
		c.value(v)
	case opAdd:
		sum, err := t.Add(string(r.texts[0]), int64(r.number))
		if err != nil {
			return err
		}
		c.number(uint64(sum))
	case opCheck:
		c.byte(l.check(r.texts))
	case opWait:
		c.await(func(w *table.Wait) (bool, error) { return t.Await(texts(r.texts), w), nil })
	case opNumKeys:
		c.number(uint64(t.NumKeys()))
	case opDelete:
		c.number(count(t.Delete(string(r.texts[0]))))
	case opAppend:
		t.Append(string(r.texts[0]), r.texts[1])
	case opMultiGet:
		for _, key := range r.texts {
			v, _ := t.Get(key)
			c.value(v)
		}
	case opMultiSet:
		for i := 0; i < len(r.texts); i += 2 {
			t.Set(string(r.texts[i]), keep(r.texts[i+1]))
		}
	case opCancelWait:
		c.cancel()
		c.byte(answerCanceled)
	case opPing:
		c.pid = uint32(r.number)
		c.write(binary.LittleEndian.AppendUint32(nil, c.pid))
	default:
		return l.serveQueues(c, r)
	}
	return nil
}

// serveQueues carries out what came later than PyTorch 2.7.
func (l *loop) serveQueues(c *conn, r *request) error {
	t := l.table
	switch r.op {
	case opPush:
		t.Push(string(r.texts[0]), keep(r.texts[1]))
	case opPop:
		v, before := t.Pop(string(r.texts[0]))
		c.number(uint64(before))
		if before > 0 {
			c.value(v)
		}
	case opQueueLen:
		c.number(uint64(t.QueueLen(r.texts[0])))
	case opKeys:
		keys := t.Keys()
		c.number(uint64(len(keys)))
		for _, key := range keys {
			c.value([]byte(key))
		}
	case opBarrier:
		return c.await(func(w *table.Wait) (bool, error) {
			return t.Arrive(string(r.texts[0]), int64(r.number), w)
		})
	}
	return nil
}

func (l *loop) check(keys [][]byte) byte {
	for _, key := range keys {
		if !l.table.Has(key) {
			return answerNotReady
		}
	}
	return answerReady
}

// keep copies bytes out of the read buffer.
func keep(b []byte) []byte { return append([]byte(nil), b...) }

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

func count(was bool) uint64 {
	if was {
		return 1
	}
	return 0
}
