package pmix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

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
	// maxWaiting is how many requests of one client may wait for others.
	maxWaiting = 1 << 14
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
	// codes are the events that it wants to hear of; anyEvent: all.
	codes    map[status]bool
	anyEvent bool

	// mu guards what waits to be written.
	mu      sync.Mutex
	waiting int // requests without an answer
	out     []byte
	writing bool
	ended   bool
	drained *sync.Cond
}

// Serve serves one client until its connection ends.
func (s *Server) Serve(nc net.Conn) {
	c := &conn{Conn: nc, in: bufio.NewReader(nc)}
	c.drained = sync.NewCond(&c.mu)
	defer c.close()
	if !s.expect(c) {
		return
	}
	if err := s.greet(c); err != nil {
		s.mu.Lock()
		s.forget(c)
		s.mu.Unlock()
		return
	}
	c.SetReadDeadline(time.Time{})
	err := s.serveRequests(c)
	s.leave(c, err)
}

// expect notes a connection which has not said who it is.
func (s *Server) expect(c *conn) bool {
	c.SetReadDeadline(time.Now().Add(handshakeTime))
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetNoDelay(true)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
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
	s.mu.Unlock()
	if oldest != nil {
		oldest.close()
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
	s.mu.Lock()
	if c.member.gone {
		c.SetReadDeadline(time.Now().Add(lastWords))
	}
	s.mu.Unlock()
	for {
		f, err := readFrame(c.in, binary.BigEndian, maxFrame)
		if err != nil {
			if over(err) {
				return nil
			}
			return err
		}
		if err := c.count(); err != nil {
			return err
		}
		if err := s.serve(&request{conn: c, tag: f.tag, body: decoder{b: f.body}}); err != nil {
			return err
		}
		c.waitForReader()
	}
}

// over reports whether a connection ended, rather than that something else was sent than
// there may be. A client may end in the middle of a message: it was killed then.
func over(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network)
}

// count counts a request that has no answer yet.
func (c *conn) count() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting >= maxWaiting {
		return fmt.Errorf("more than %d requests wait for others at the same time", maxWaiting)
	}
	c.waiting++
	return nil
}

// unanswered counts down for a request that gets no answer.
func (c *conn) unanswered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// answer answers a request, without waiting.
func (c *conn) answer(tag uint32, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	if !c.ended {
		c.out = appendFrame(c.out, tag, body)
		c.startWriting()
	}
}

// tellEvent sends an event, without waiting. A client that does not read misses it: what
// others tell must not pile up.
func (c *conn) tellEvent(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && len(c.out) <= maxUnread {
		c.out = appendFrame(c.out, tagEvent, message)
		c.startWriting()
	}
}

// sendRaw is send for what is no message.
func (c *conn) sendRaw(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, b...)
	c.startWriting()
}

func (c *conn) startWriting() {
	if !c.writing {
		c.writing = true
		go c.writeAll()
	}
}

// writeAll writes what waits, and ends.
func (c *conn) writeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > 0 && !c.ended {
		out := c.out
		c.out = nil
		c.mu.Unlock()
		_, err := c.Conn.Write(out)
		c.mu.Lock()
		if err != nil {
			c.ended = true
		}
		c.drained.Broadcast()
	}
	c.writing = false
	c.drained.Broadcast()
}

// write writes before it returns, for what is said to who is not let in.
func (c *conn) write(b []byte) {
	c.SetWriteDeadline(time.Now().Add(lastWords))
	c.Conn.Write(b)
}

// waitForReader waits while a client does not read its answers.
func (c *conn) waitForReader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > maxUnread && !c.ended {
		c.drained.Wait()
	}
}

// close ends the connection. What waits to be written is lost.
func (c *conn) close() {
	c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.out = true, nil
	c.drained.Broadcast()
}
