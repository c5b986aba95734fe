package pmix

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gorun/rendezvous/internal/outbox"
	"gorun/rendezvous/world"
)

const (
	// handshakeTimeout bounds the handshake, which real clients send at once.
	handshakeTimeout = 10 * time.Second
	// morePending is how many connections may be in their handshake, beside one for each rank here. If there are more,
	// the oldest is closed: real handshakes take microseconds.
	morePending = 64
	// maxUnread is how many bytes of replies a client may leave unread before its next request is read.
	maxUnread = 16 << 20
	// maxUnwritten is how many it may leave unread at all, beside the last reply: earlier requests may be answered at any
	// time.
	maxUnwritten = 64 << 20
	// maxWaiting and maxWaitingBytes bound a client's requests without a reply.
	maxWaiting      = 1 << 14
	maxWaitingBytes = 128 << 20
	// drainTimeout is how long to read what a process sent before it exited.
	drainTimeout = time.Second
)

// conn is a client's connection.
type conn struct {
	net.Conn
	in  *bufio.Reader
	out *outbox.Outbox

	// Set by admit:
	proc    world.Proc
	space   *namespace
	member  *member
	version string
	index   uint32

	// Guarded by the server's lock:
	finalized    bool
	knownSpaces  map[*namespace]bool // other worlds of which it has been sent everything
	sentData     map[*member]share   // what it has been sent of the commits of ranks on its host
	subscription subscription
	monitors     []*monitor

	// waiting counts the requests without a reply, waitingBytes their bytes.
	waiting, waitingBytes atomic.Int64
}

func newConn(nc net.Conn) *conn {
	return &conn{
		Conn: nc, in: bufio.NewReader(nc), out: outbox.New(nc, maxUnwritten), knownSpaces: map[*namespace]bool{},
		sentData: map[*member]share{}, subscription: subscription{codes: map[status]bool{}},
	}
}

// Serve serves one client until its connection ends. The client names its rank itself, so that the second argument is
// ignored.
func (s *Server) Serve(nc net.Conn, _ world.Proc) {
	c := newConn(nc)
	defer c.out.Close()
	if !s.addPending(c) {
		return
	}
	if err := s.handshake(c); err != nil {
		s.node.Lock()
		s.removePending(c)
		s.node.Unlock()
		return
	}
	c.SetReadDeadline(time.Time{})
	s.disconnected(c, s.serveRequests(c))
}

// addPending records a connection until the end of its handshake.
func (s *Server) addPending(c *conn) bool {
	c.SetReadDeadline(time.Now().Add(handshakeTimeout))
	s.node.Lock()
	defer s.node.Unlock()
	if s.closed {
		return false
	}
	room := morePending
	for _, n := range s.spaces {
		room += len(n.Local)
	}
	if len(s.pending) >= room {
		s.node.AfterUnlock(s.pending[0].out.Close)
		s.pending = s.pending[1:]
	}
	s.pending = append(s.pending, c)
	return true
}

func (s *Server) removePending(c *conn) {
	s.pending = slices.DeleteFunc(s.pending, func(other *conn) bool { return other == c })
}

// serveRequests serves requests until the connection ends. The error says what is wrong with a request.
func (s *Server) serveRequests(c *conn) error {
	s.node.Lock()
	if c.member.processEnded {
		c.SetDeadline(time.Now().Add(drainTimeout))
	}
	s.node.Unlock()
	for {
		f, err := readFrame(c.in, binary.BigEndian, maxFrame)
		if err != nil {
			if err = cmp.Or(c.errUnread(), err); isDisconnect(err) {
				return nil
			}
			return err
		}
		q := &request{conn: c, tag: f.tag, body: decoder{b: f.body}, size: len(f.body)}
		if err := q.begin(); err != nil {
			return err
		}
		if err := s.serve(q); err != nil {
			return err
		}
		c.out.Settle(maxUnread)
	}
}

// errUnread returns an error if the connection was closed because the client does not read.
func (c *conn) errUnread() error {
	if err := c.out.Err(); errors.Is(err, outbox.ErrUnread) {
		return err
	}
	return nil
}

// isDisconnect tells the end of a connection from an invalid message. A client that is killed may disconnect in the
// middle of a message.
func isDisconnect(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network)
}

// push sends a message that is no reply, without waiting, and reports whether it did: a client with more than limit
// unread bytes misses it, so that messages cannot pile up.
func (c *conn) push(tag uint32, message []byte, limit int) bool {
	if c.out.Waiting() > limit {
		return false
	}
	c.out.Send(appendFrame(nil, tag, message))
	return true
}

// write writes before it returns, for clients that are refused.
func (c *conn) write(b []byte) {
	c.SetWriteDeadline(time.Now().Add(drainTimeout))
	c.Conn.Write(b)
}

// disconnected handles the end of a client's connection. err says what was wrong with its last request, if anything.
func (s *Server) disconnected(c *conn, err error) {
	s.node.Lock()
	defer s.node.Unlock()
	delete(s.conns, c)
	c.stopMonitors("")
	s.endPulls(c)
	m := c.member
	m.conns = slices.DeleteFunc(m.conns, func(other *conn) bool { return other == c })
	if s.closed {
		return
	}
	if err != nil {
		s.node.AfterUnlock(func() { s.cfg.Launcher.Broken(c.proc, err) })
	} else if !c.finalized {
		s.node.AfterUnlock(func() { s.cfg.Launcher.Left(c.proc) })
	}
	if !c.finalized {
		s.leaveCollectives(c)
	}
	s.checkExited(c.proc, m)
}

// request is a message from a client that waits for its reply.
type request struct {
	*conn
	tag  uint32
	body decoder // after the command; values decoded from it may be kept
	size int     // of the whole body, in bytes
	// infos are those of GROUP CONSTRUCT, which the end of the collective needs.
	infos []info
}

// begin counts a request that has no reply yet.
func (q *request) begin() error {
	switch {
	case q.waiting.Add(1) > maxWaiting:
		return fmt.Errorf("more than %d requests are pending", maxWaiting)
	case q.waitingBytes.Add(int64(q.size)) > maxWaitingBytes:
		return fmt.Errorf("the pending requests exceed %d bytes", maxWaitingBytes)
	}
	return nil
}

// noReply ends a request that has no reply.
func (q *request) noReply() {
	q.waiting.Add(-1)
	q.waitingBytes.Add(-int64(q.size))
}

// reply sends the reply, a body in parts. It is called once, on any goroutine, and does not wait. If the connection has
// ended it does nothing.
func (q *request) reply(body ...[]byte) {
	q.noReply()
	if q.out.Err() == nil {
		q.out.Send(appendFrame(nil, q.tag, body...))
	}
}

// status replies with a group {status} alone.
func (q *request) status(code status) {
	var e encoder
	e.oneStatus(code)
	q.reply(e.b)
}

// epoch returns how often the rank that sent the request had begun MPI before.
func (q *request) epoch() uint32 { return q.member.data.epoch }
