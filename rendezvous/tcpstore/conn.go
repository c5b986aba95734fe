package tcpstore

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/rendezvous"
)

// conn is one connection. Idle, it is this struct and nothing else.
type conn struct {
	fd      int
	peer    netip.AddrPort
	host    *host
	pid     uint32 // as its last PING says: clients since PyTorch 2.5 send their process id
	known   bool   // it greeted
	dead    bool   // doomed
	watched uint32 // the events that epoll tells

	in     []byte // what came and could not be served yet: part of a request, or more while unsent is not empty
	scan   scan   // where the request that in begins with ends
	unsent outbox // answers that the peer has not taken yet
	waiter rendezvous.Waiter
	holds  int64 // bytes of in and unsent, as counted in loop.held

	member *member // nil: it has used no key of PyTorch's default group
	group  uint32  // which of its process's

	until         time.Time // when it has to have greeted
	before, after *conn     // among those that have not greeted
}

// who names a connection in a message.
func (c *conn) who() string {
	if c.pid == 0 {
		return c.peer.String()
	}
	return fmt.Sprintf("%v (pid %d)", c.peer, c.pid)
}

// doom has the connection closed at the end of the turn.
func (l *loop) doom(c *conn) {
	if !c.dead {
		c.dead = true
		l.doomed = append(l.doomed, c)
	}
}

// fail dooms a connection for what it did. Its requests before that are answered.
func (l *loop) fail(c *conn, kind fault, why error) {
	if c.dead {
		return
	}
	if c == l.current {
		l.flush(c, false)
	}
	l.refused++
	l.complaints.say(complaint{c.peer.Addr(), c.pid, kind}, "the store disconnected %s: %v", c.who(), why)
	l.doom(c)
}

// serve is a connection's turn: what it did not take before is sent, what it sent is read and served.
func (l *loop) serve(c *conn, events uint32) {
	if c.dead {
		return // somebody's turn before this one found out
	}
	stored := l.engine.Size()
	l.engine.Charge(&c.host.stored)
	if events&unix.EPOLLOUT != 0 {
		l.resume(c)
	}
	switch {
	case c.dead:
	case c.unsent.empty():
		l.receive(c)
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		l.doom(c)
	}
	l.finish(c, l.engine.Size()-stored)
}

// resume sends what was not sent, and serves what had to wait for that.
func (l *loop) resume(c *conn) {
	if !l.sendUnsent(c) || len(c.in) == 0 {
		return
	}
	l.take(c, c.in)
}

// receive reads once and serves the requests that are whole by then.
func (l *loop) receive(c *conn) {
	into := l.in
	if len(c.in) > 0 {
		into = c.room()
	}
	n, errno := receive(c.fd, into)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0 || n == 0: // reset, or closed; what it still asked for nobody would read
		l.doom(c)
	case len(c.in) > 0:
		c.in = c.in[:len(c.in)+n]
		l.take(c, c.in)
	default:
		l.take(c, into[:n])
	}
}

// room is where the rest of a request is read to. It grows with what came, never with what was announced.
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
	for c.unsent.empty() && !c.dead {
		n := l.next(c, rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	l.flush(c, false)
	c.keep(rest)
}

// next serves the request that p begins with and returns its length, 0 if it is not whole or not allowed.
func (l *loop) next(c *conn, p []byte) int {
	if !c.known {
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

// reject dooms a connection for its request, which begins with op. It is not part of next, which must not allocate for
// each request.
func (l *loop) reject(c *conn, op byte, err error) {
	if wrong := (*rendezvous.NotNumberError)(nil); errors.As(err, &wrong) {
		l.fail(c, faultNumber, fmt.Errorf("%s: %w", protocol[op].name, err))
		return
	}
	l.fail(c, faultRequest, err)
}

func (l *loop) greeting(c *conn, p []byte) int {
	n, err := greeted(p)
	switch {
	case errors.Is(err, errOldClient):
		l.fail(c, faultOld, err)
	case err != nil:
		l.fail(c, faultStranger, err)
	case n > 0:
		l.greet(c)
		l.server.clients.Add(1)
	}
	return n
}

// keep keeps the rest of what came, which may lie in c.in itself, in no more space than it needs.
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

// finish ends a turn in which the store grew by stored bytes: what epoll should tell and what is held is settled. The
// connection by which a store that is full grew has to go, or by which its host has more than its share.
func (l *loop) finish(c *conn, stored int64) {
	if c.dead {
		return
	}
	l.interest(c)
	if grown := l.weigh(c) + stored; grown <= 0 {
		return
	}
	if why := l.overfull(c.host); why != nil {
		l.fail(c, faultMemory, why)
	}
}

// weigh counts anew what a connection holds, and returns by how much that has grown.
func (l *loop) weigh(c *conn) (grown int64) {
	holds := int64(cap(c.in)) + c.unsent.size()
	grown = holds - c.holds
	c.holds = holds
	l.held += grown
	c.host.held += grown
	return grown
}

// interest has epoll tell about input, or, while answers are unsent, about room for them: who does not read is not read
// from.
func (l *loop) interest(c *conn) {
	wanted := uint32(unix.EPOLLIN)
	if !c.unsent.empty() {
		wanted = unix.EPOLLOUT
	}
	if wanted == c.watched {
		return
	}
	c.watched = wanted
	if l.watch(unix.EPOLL_CTL_MOD, c.fd, wanted) != nil {
		l.doom(c)
	}
}
