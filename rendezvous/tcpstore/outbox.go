package tcpstore

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	// flushAt is how many bytes of replies are gathered before they are sent.
	flushAt = 64 << 10
	// copyMost bounds the values that are copied behind other replies instead of sent from the store's memory.
	copyMost = 16 << 10
	// copyUnsent is copyMost for replies that cannot be sent yet. It is small, since a peer may request much and read
	// nothing.
	copyUnsent = 512
)

// outbox is what a peer has not taken, oldest first: copies of small replies, and large values in the store's memory.
type outbox struct {
	pieces [][]byte
	own    bool // the last piece is a copy that can be appended to
	copied int64
}

func (o *outbox) empty() bool { return len(o.pieces) == 0 }

// size returns the outbox's memory, without values that the store counts.
func (o *outbox) size() int64 { return o.copied + 24*int64(cap(o.pieces)) }

func (o *outbox) copy(p []byte) {
	if !o.own {
		o.pieces = append(o.pieces, nil)
		o.own = true
	}
	last := &o.pieces[len(o.pieces)-1]
	*last = append(*last, p...)
	o.copied += int64(len(p))
}

func (o *outbox) refer(p []byte) {
	o.pieces = append(o.pieces, p)
	o.own = false
}

func (o *outbox) sent(n int) {
	if o.pieces[0] = o.pieces[0][n:]; len(o.pieces[0]) > 0 {
		return
	}
	o.pieces[0] = nil
	if o.pieces = o.pieces[1:]; len(o.pieces) == 0 {
		*o = outbox{}
	}
}

// Replies to the current request are gathered in loop.out, or in the connection's outbox once the peer takes no more.

func (l *loop) putByte(c *conn, b byte) { l.put(c, []byte{b}) }

func (l *loop) putNumber(c *conn, n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	l.put(c, b[:])
}

func (l *loop) put(c *conn, p []byte) {
	if !c.unsent.empty() {
		c.unsent.copy(p)
		return
	}
	if l.out = append(l.out, p...); len(l.out) >= flushAt {
		l.flush(c, false)
	}
}

// putValue replies a length and as many bytes, which must not change any more.
func (l *loop) putValue(c *conn, value []byte) {
	l.putNumber(c, int64(len(value)))
	switch {
	case !c.unsent.empty() && len(value) > copyUnsent:
		c.unsent.refer(value)
	case !c.unsent.empty() || len(value) <= copyMost:
		l.put(c, value)
	default:
		l.flush(c, true)
		if rest := l.transmit(c, value, false); len(rest) > 0 {
			c.unsent.refer(rest)
		}
	}
}

// flush sends the gathered replies. more says that a value follows at once.
func (l *loop) flush(c *conn, more bool) {
	if len(l.out) == 0 {
		return
	}
	if rest := l.transmit(c, l.out, more); len(rest) > 0 {
		c.unsent.copy(rest)
	}
	l.out = l.out[:0]
}

// transmit sends p, unless other replies have to go first, and returns what the peer did not take.
func (l *loop) transmit(c *conn, p []byte, more bool) (rest []byte) {
	if c.closing {
		return nil
	}
	if !c.unsent.empty() {
		return p
	}
	n, errno := send(c.fd, p, more)
	switch errno {
	case 0:
		return p[n:]
	case unix.EAGAIN, unix.EINTR:
		return p
	}
	l.closeLater(c)
	return nil
}

// sendUnsent sends from a connection's outbox, but not for long, so that others get their turn. It reports whether the
// outbox is empty.
func (l *loop) sendUnsent(c *conn) bool {
	for !c.unsent.empty() {
		piece := c.unsent.pieces[0]
		n, errno := send(c.fd, piece, len(c.unsent.pieces) > 1)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return false
		case errno != 0:
			l.closeLater(c)
			return false
		}
		c.unsent.sent(n)
		if n < len(piece) || n > flushAt {
			break
		}
	}
	return c.unsent.empty()
}

// woken replies to a WAIT or BARRIER that is over. The engine is in the middle of an operation, so that no connection
// may be closed here.
func (l *loop) woken(c *conn) {
	ready := []byte{replyReady}
	if c == l.current {
		l.put(c, ready) // behind the replies to earlier requests
		return
	}
	if rest := l.transmit(c, ready, false); len(rest) > 0 {
		c.unsent.copy(rest)
		l.recount(c)
		l.watchEvents(c)
	}
}
