package tcpstore

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/rendezvous"
)

// conn is a connection. An idle one has no other memory.
type conn struct {
	fd      int
	peer    netip.AddrPort
	host    *host
	pid     uint32 // from its last PING, which clients since PyTorch 2.5 send; 0 if unknown
	closing bool   // in loop.closing
	watched uint32 // events that epoll reports, see watchEvents

	in     []byte // not served yet: part of a request, or more while unsent is not empty
	scan   scan   // of the request that in begins with
	unsent outbox // replies that the peer has not taken
	waiter rendezvous.Waiter
	holds  int64 // bytes of in and unsent, as counted in loop.held

	member *member // nil before it uses a key of PyTorch's default group
	group  uint32  // of its process

	until     time.Time     // deadline of the greeting
	ungreeted *list.Element // in loop.ungreeted; nil after the greeting
}

// String names the connection in messages.
func (c *conn) String() string {
	if c.pid == 0 {
		return c.peer.String()
	}
	return fmt.Sprintf("%v (pid %d)", c.peer, c.pid)
}

// closeLater closes the connection at the end of the turn.
func (l *loop) closeLater(c *conn) {
	if !c.closing {
		c.closing = true
		l.greeted(c)
		l.closing = append(l.closing, c)
	}
}

// fail closes a connection for what it did, after its earlier requests were answered.
func (l *loop) fail(c *conn, kind fault, why error) {
	if c.closing {
		return
	}
	if c == l.current {
		l.flush(c, false)
	}
	l.refused++
	l.complaints.log(complaint{c.peer.Addr(), c.pid, kind}, "the store disconnected %s: %v", c.String(), why)
	l.closeLater(c)
}

// serve handles the events of a connection.
func (l *loop) serve(c *conn, events uint32) {
	if c.closing {
		return // failed earlier in this turn
	}
	stored := l.engine.Size()
	l.engine.Charge(&c.host.stored)
	if events&^unix.EPOLLIN != 0 {
		c.watched = 0
	}
	if events&unix.EPOLLOUT != 0 {
		l.resume(c)
	}
	switch {
	case c.closing:
	case c.unsent.empty():
		l.receive(c)
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		l.closeLater(c)
	}
	l.finish(c, l.engine.Size()-stored)
}

// resume sends what was not sent, and serves the requests that had to wait for that.
func (l *loop) resume(c *conn) {
	if !l.sendUnsent(c) || len(c.in) == 0 {
		return
	}
	l.take(c, c.in)
}

// receive reads once, and serves the complete requests.
func (l *loop) receive(c *conn) {
	into := l.in
	if len(c.in) > 0 {
		into = c.room()
	}
	n, errno := receive(c.fd, into)
	if n == len(into) {
		c.watched = 0
	}
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0 || n == 0: // reset or closed: no one reads the replies
		l.closeLater(c)
	case len(c.in) > 0:
		c.in = c.in[:len(c.in)+n]
		l.take(c, c.in)
	default:
		l.take(c, into[:n])
	}
}

// room returns where to read the rest of a request. It grows with what has come, not with what was announced.
func (c *conn) room() []byte {
	rest := max(c.scan.need-len(c.in), 0)
	if cap(c.in)-len(c.in) < min(rest, chunk) || cap(c.in) == len(c.in) {
		c.in = slices.Grow(c.in, max(min(rest, len(c.in)), chunk/8))
	}
	free := c.in[len(c.in):cap(c.in)]
	return free[:min(len(free), rest+chunk, bulk)]
}

// take serves the requests at the beginning of p and keeps the rest.
func (l *loop) take(c *conn, p []byte) {
	rest := p
	for c.unsent.empty() && !c.closing {
		n := l.next(c, rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	l.flush(c, false)
	c.keep(rest)
}

// next serves the request that p begins with and returns its length, 0 if it is incomplete or invalid.
func (l *loop) next(c *conn, p []byte) int {
	if c.ungreeted != nil {
		return l.greeting(c, p)
	}
	n, err := c.scan.end(p, &l.cfg.Limits)
	if n > 0 {
		l.served++
		err = l.answer(c, p[0], arguments(p[1:n]))
	}
	if err != nil {
		l.reject(c, p[0], err)
		return 0
	}
	return n
}

// reject closes a connection for a request that begins with op. It is apart from next, which must not allocate.
func (l *loop) reject(c *conn, op byte, err error) {
	if wrong := (*rendezvous.NotNumberError)(nil); errors.As(err, &wrong) {
		l.fail(c, faultNumber, fmt.Errorf("%s: %w", protocol[op].name, err))
		return
	}
	l.fail(c, faultRequest, err)
}

func (l *loop) greeting(c *conn, p []byte) int {
	n, err := parseGreeting(p)
	switch {
	case errors.Is(err, errOldClient):
		l.fail(c, faultOld, err)
	case err != nil:
		l.fail(c, faultNotClient, err)
	case n > 0:
		l.greeted(c)
		l.server.clients.Add(1)
	}
	return n
}

// keep keeps the rest of what has come, which may be part of c.in, without excess capacity.
func (c *conn) keep(rest []byte) {
	switch {
	case len(rest) == 0:
		c.in = nil
	case cap(c.in) > 4*len(rest)+chunk:
		c.in = slices.Clone(rest)
	default:
		c.in = append(c.in[:0], rest...)
	}
}

// finish ends a turn in which the store grew by stored bytes. It closes the connection if that exceeds the store's
// limit or the host's share.
func (l *loop) finish(c *conn, stored int64) {
	if c.closing {
		return
	}
	l.watchEvents(c)
	if grown := l.recount(c) + stored; grown <= 0 {
		return
	}
	if why := l.overfull(c.host); why != nil {
		l.fail(c, faultMemory, why)
	}
}

// recount counts again what a connection holds, and returns the growth.
func (l *loop) recount(c *conn) (grown int64) {
	holds := int64(cap(c.in)) + c.unsent.size()
	grown = holds - c.holds
	c.holds = holds
	l.held += grown
	c.host.held += grown
	return grown
}

// input and output are the events that epoll reports of a connection, once each time that something comes. To have the
// kernel look again at what was read already costs 2 % of the CPU time.
const (
	input  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	output = unix.EPOLLOUT | unix.EPOLLET
)

// watchEvents has epoll report input or, while replies are unsent, room for output: a peer that does not read is not
// read from. If watched is 0, there may be more input, its end or more room, and epoll reports that again.
func (l *loop) watchEvents(c *conn) {
	wanted := uint32(input)
	if !c.unsent.empty() {
		wanted = output
	}
	if wanted == c.watched {
		return
	}
	c.watched = wanted
	if l.watch(unix.EPOLL_CTL_MOD, c.fd, wanted) != nil {
		l.closeLater(c)
	}
}
