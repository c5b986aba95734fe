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

const (
	// referTo is the length from which values are sent from where they lie, not
	// copied behind other answers.
	referTo = 4 << 10
	// unsentLimit is how many bytes of answers may wait for a client that does not
	// read; until then its further requests wait too.
	unsentLimit = 64 << 20
	// iovecs is how many pieces one write takes.
	iovecs = 64
)

// conn is one client's connection. It belongs to the loop.
type conn struct {
	loop   *loop
	fd     int32
	peer   netip.AddrPort
	since  time.Time
	known  bool   // it said hello
	pid    uint32 // as its PING said; 0 before 2.5
	closed bool

	in     []byte // the beginning of a request
	out    [][]byte
	own    bool // the last piece of out is ours to append to
	unsent int
	events uint32 // what epoll reports; 0 stands for EPOLLIN

	waits *table.Wait
	more  []*table.Wait // a pipelining client's further waits
}

// receive reads what is there, at most one buffer, so that others have a turn,
// and serves the requests in it.
func (c *conn) receive() {
	buf := c.loop.buf
	n, err := unix.Read(int(c.fd), buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil || n == 0:
		c.close()
		return
	}
	b := buf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	used, err := c.serveAll(b)
	if err != nil {
		c.cut(err)
		return
	}
	c.remember(b[used:])
	c.flush()
}

// serveAll serves the whole requests at the beginning of b and returns their
// length.
func (c *conn) serveAll(b []byte) (used int, err error) {
	if !c.known {
		if err := hello(b); err != nil {
			return 0, ignoreIncomplete(err)
		}
		used = 5
		c.known = true
		c.loop.strangers--
		c.loop.server.clients.Add(1)
	}
	for c.unsent < unsentLimit && !c.closed {
		n, err := c.loop.parser.next(b[used:])
		if err != nil {
			return used, ignoreIncomplete(err)
		}
		if err := c.loop.serve(c, &c.loop.parser.req); err != nil {
			return used, err
		}
		used += n
	}
	return used, nil
}

func ignoreIncomplete(err error) error {
	if errors.Is(err, errIncomplete) {
		return nil
	}
	return err
}

// resume serves what had to wait until the client read its answers.
func (c *conn) resume() {
	if c.closed || len(c.in) == 0 || c.unsent >= unsentLimit {
		return
	}
	used, err := c.serveAll(c.in)
	if err != nil {
		c.cut(err)
		return
	}
	c.remember(c.in[used:])
	c.flush()
}

// remember keeps the beginning of a request until the rest comes. The space grows
// with the bytes that came, and is given up when nothing is left.
func (c *conn) remember(rest []byte) {
	switch {
	case len(rest) == 0:
		c.in = nil
	case len(c.in) > 0:
		c.in = c.in[:copy(c.in, rest)]
	default:
		c.in = append([]byte(nil), rest...)
	}
}

// await answers when the wait is over: now, later, or never.
func (c *conn) await(register func(*table.Wait) (bool, error)) error {
	w := &table.Wait{}
	w.Done = func() { c.over(w) }
	done, err := register(w)
	switch {
	case err != nil:
		return err
	case done:
		c.byte(answerReady)
	case c.waits == nil:
		c.waits = w
	default:
		c.more = append(c.more, w)
	}
	return nil
}

// over answers a wait that somebody else's request has ended.
func (c *conn) over(w *table.Wait) {
	if c.waits == w {
		c.waits = nil
	}
	for i, other := range c.more {
		if other == w {
			c.more = append(c.more[:i:i], c.more[i+1:]...)
			break
		}
	}
	c.byte(answerReady)
	c.flush()
}

// cancel forgets all waits of the connection.
func (c *conn) cancel() {
	if c.waits != nil {
		c.loop.table.Cancel(c.waits)
	}
	for _, w := range c.more {
		c.loop.table.Cancel(w)
	}
	c.waits, c.more = nil, nil
}

func (c *conn) byte(b byte) { c.write([]byte{b}) }

func (c *conn) number(n uint64) { c.write(binary.LittleEndian.AppendUint64(nil, n)) }

func (c *conn) value(v []byte) {
	c.number(uint64(len(v)))
	if len(v) < referTo {
		c.write(v)
		return
	}
	c.out = append(c.out, v)
	c.own = false
	c.unsent += len(v)
}

// write adds bytes to the answers. They are copied.
func (c *conn) write(b []byte) {
	if !c.own {
		c.out = append(c.out, c.loop.spare[:0])
		c.own, c.loop.spare = true, nil
	}
	last := len(c.out) - 1
	c.out[last] = append(c.out[last], b...)
	c.unsent += len(b)
}

// flush sends what it can, and asks epoll about the rest.
func (c *conn) flush() {
	for c.unsent > 0 && !c.closed {
		n, err := unix.Writev(int(c.fd), c.out[:min(len(c.out), iovecs)])
		switch {
		case err == unix.EAGAIN:
			c.watch(unix.EPOLLOUT)
			return
		case err == unix.EINTR:
		case err != nil:
			c.close()
			return
		default:
			c.sent(n)
		}
	}
	if !c.closed {
		c.watch(0)
	}
}

func (c *conn) sent(n int) {
	c.unsent -= n
	if c.unsent == 0 { // as nearly always: the space serves the next answer of anybody
		if c.own && len(c.out) == 1 && cap(c.out[0]) <= referTo {
			c.loop.spare = c.out[0]
		}
		c.out, c.own = c.out[:0:min(cap(c.out), 1)], false
		return
	}
	for n >= len(c.out[0]) {
		n -= len(c.out[0])
		c.out[0] = nil
		c.out = c.out[1:]
	}
	c.out[0] = c.out[0][n:]
}

// watch asks epoll for more than input, or, when too many answers wait, for less.
func (c *conn) watch(extra uint32) {
	events := uint32(unix.EPOLLIN) | extra
	if c.unsent >= unsentLimit {
		events = unix.EPOLLOUT
	}
	before := c.events
	if before == 0 {
		before = unix.EPOLLIN
	}
	if events != before {
		c.events = events
		_ = c.loop.control(unix.EPOLL_CTL_MOD, int(c.fd), events)
	}
}

// cut ends a connection that did something wrong, and says so.
func (c *conn) cut(err error) {
	who := c.peer.String()
	if c.pid != 0 {
		who += fmt.Sprintf(" (pid %d)", c.pid)
	}
	c.loop.log(c.peer.Addr(), "the store closed the connection of %s: %v", who, err)
	c.close()
}

func (c *conn) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	if !c.known {
		c.loop.strangers--
	}
	delete(c.loop.conns, c.fd)
	_ = c.loop.control(unix.EPOLL_CTL_DEL, int(c.fd), 0)
	_ = unix.Close(int(c.fd))
}
