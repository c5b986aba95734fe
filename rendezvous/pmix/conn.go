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
	// handshakeTime is how long a client may take to say who it is; it does so at once.
	handshakeTime = 10 * time.Second
	// morePending is how many connections may be about to say who they are, beside one for
	// each rank here. When there are more, the oldest is ended: real ones take microseconds.
	morePending = 64
	// maxUnread is how many bytes of answers may wait for a client to read them before its
	// next request is read.
	maxUnread = 16 << 20
	// maxUnwritten is how many may wait at all, beside the last answer: what was asked for
	// before may be answered at any time.
	maxUnwritten = 64 << 20
	// maxWaiting is how many requests of one client may wait for others, maxWaitingBytes how
	// many bytes of them.
	maxWaiting      = 1 << 14
	maxWaitingBytes = 128 << 20
	// lastWords is how long bytes of a process that is gone may take to arrive.
	lastWords = time.Second
)

// conn is a client's connection.
type conn struct {
	net.Conn
	in *bufio.Reader

	// Since it was admitted:
	who     world.Proc
	space   *namespace
	member  *member
	version string
	index   uint32

	// What follows is guarded by the server's lock.
	finalized bool
	// told are other worlds of which it was told all that is known.
	told map[*namespace]bool
	// has is what it was told of what ranks on its host have committed.
	has map[*member]share
	// interest is the events that it wants to hear of.
	interest interest
	// monitors watch for its rank's signs of life.
	monitors []*monitor

	// out is what it is sent once it was let in.
	out *outbox.Outbox

	// waiting is how many requests have no answer, waitingBytes their bytes.
	waiting, waitingBytes atomic.Int64
}

func newConn(nc net.Conn) *conn {
	return &conn{Conn: nc, in: bufio.NewReader(nc), out: outbox.New(nc, maxUnwritten)}
}

// Serve serves one client until its connection ends. Nobody needs to know who it is: it says so.
func (s *Server) Serve(nc net.Conn, _ world.Proc) {
	c := newConn(nc)
	defer c.out.Close()
	if !s.expect(c) {
		return
	}
	if err := s.greet(c); err != nil {
		s.lock()
		s.forget(c)
		s.unlock()
		return
	}
	c.SetReadDeadline(time.Time{})
	err := s.serveRequests(c)
	s.leave(c, err)
}

// expect notes a connection which has not said who it is.
func (s *Server) expect(c *conn) bool {
	c.SetReadDeadline(time.Now().Add(handshakeTime))
	s.lock()
	if s.closed {
		s.unlock()
		return false
	}
	room := morePending
	for _, n := range s.spaces {
		room += len(n.local)
	}
	var oldest *conn
	if len(s.pending) >= room {
		oldest = s.pending[0]
		s.pending = s.pending[1:]
	}
	s.pending = append(s.pending, c)
	s.unlock()
	if oldest != nil {
		oldest.out.Close()
	}
	return true
}

// forget takes a connection from those that have not said who they are.
func (s *Server) forget(c *conn) {
	if i := slices.Index(s.pending, c); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
	}
}

// serveRequests serves requests until there are no more. The error is what is wrong with
// one, or nil when the connection ended.
func (s *Server) serveRequests(c *conn) error {
	s.lock()
	if c.member.gone {
		c.SetDeadline(time.Now().Add(lastWords))
	}
	s.unlock()
	for {
		f, err := readFrame(c.in, binary.BigEndian, maxFrame)
		if err != nil {
			if err = cmp.Or(c.unread(), err); over(err) {
				return nil
			}
			return err
		}
		q := &request{conn: c, tag: f.tag, body: decoder{b: f.body}, size: len(f.body)}
		if err := c.count(q); err != nil {
			return err
		}
		if err := s.serve(q); err != nil {
			return err
		}
		c.out.Settle(maxUnread)
	}
}

// unread is the error of a connection that was ended since its client does not read.
func (c *conn) unread() error {
	if err := c.out.Err(); errors.Is(err, outbox.ErrUnread) {
		return err
	}
	return nil
}

// over reports whether a connection ended, rather than that something else was sent than
// there may be. A client may end in the middle of a message: it was killed then.
func over(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network)
}

// count counts a request that has no answer yet.
func (c *conn) count(q *request) error {
	switch {
	case c.waiting.Add(1) > maxWaiting:
		return fmt.Errorf("more than %d requests wait for others at the same time", maxWaiting)
	case c.waitingBytes.Add(int64(q.size)) > maxWaitingBytes:
		return fmt.Errorf("requests of more than %d bytes wait for others at the same time", maxWaitingBytes)
	}
	return nil
}

// settle counts down for a request.
func (c *conn) settle(q *request) {
	c.waiting.Add(-1)
	c.waitingBytes.Add(-int64(q.size))
}

// answer answers a request, without waiting.
func (c *conn) answer(q *request, body [][]byte) {
	c.settle(q)
	if c.out.Err() == nil {
		c.out.Send(appendFrame(nil, q.tag, body...))
	}
}

// push sends what was not asked for, as an event is, without waiting, and reports whether it did. A client that has
// left more than most bytes unread misses it: what others do must not pile up.
func (c *conn) push(tag uint32, message []byte, most int) bool {
	if c.out.Waiting() > most {
		return false
	}
	c.out.Send(appendFrame(nil, tag, message))
	return true
}

// write writes before it returns, for what is said to who is not let in.
func (c *conn) write(b []byte) {
	c.SetWriteDeadline(time.Now().Add(lastWords))
	c.Conn.Write(b)
}
