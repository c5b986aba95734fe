package tcpstore

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	// flushAt is how many bytes of answers are gathered before they are sent.
	flushAt = 64 << 10
	// copyMost is the longest value that is copied behind other answers rather than sent from where it lies in the store.
	copyMost = 16 << 10
	// copyUnsent is the same for answers that cannot be sent yet: a peer that asks for much and reads nothing gets
	// little copied.
	copyUnsent = 512
)

// outbox is what a peer has not taken yet, oldest first: copies of small answers, and large values where they lie in
// the store.
type outbox struct {
	pieces [][]byte
	own    bool // the last piece is a copy, to which more can be appended
	copied int64
}

func (o *outbox) empty() bool { return len(o.pieces) == 0 }

// size is what the outbox takes in memory. Values that lie in the store are not counted: it counts them.
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

// sent removes n bytes from the first piece.
func (o *outbox) sent(n int) {
	if o.pieces[0] = o.pieces[0][n:]; len(o.pieces[0]) > 0 {
		return
	}
	o.pieces[0] = nil
	if o.pieces = o.pieces[1:]; len(o.pieces) == 0 {
		*o = outbox{}
	}
}

// Answers to the current request are gathered in loop.out, in a connection's outbox once the peer takes no more.

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

// putValue answers a length and as many bytes, which must not change any more.
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

// flush sends the gathered answers of c; more says that a value follows at once.
func (l *loop) flush(c *conn, more bool) {
	if len(l.out) == 0 {
		return
	}
	if rest := l.transmit(c, l.out, more); len(rest) > 0 {
		c.unsent.copy(rest)
	}
	l.out = l.out[:0]
}

// transmit sends p, unless other answers have to go first, and returns what the peer did not take.
func (l *loop) transmit(c *conn, p []byte, more bool) (rest []byte) {
	if c.dead {
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
	l.doom(c)
	return nil
}

// sendUnsent sends once from a connection's outbox, so that a reader of much leaves others their turn, and reports
// whether that is empty then.
func (l *loop) sendUnsent(c *conn) bool {
	for !c.unsent.empty() {
		piece := c.unsent.pieces[0]
		n, errno := send(c.fd, piece, len(c.unsent.pieces) > 1)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return false
		case errno != 0:
			l.doom(c)
			return false
		}
		c.unsent.sent(n)
		if n < len(piece) || n > flushAt {
			break
		}
	}
	return c.unsent.empty()
}

// woken tells a connection that its WAIT or BARRIER is over. The engine is in the midst of things: nothing is closed
// here.
func (l *loop) woken(c *conn) {
	ready := []byte{answerReady}
	if c == l.current {
		l.put(c, ready) // behind the answers to requests before
		return
	}
	if rest := l.transmit(c, ready, false); len(rest) > 0 {
		c.unsent.copy(rest)
		l.weigh(c)
		l.interest(c)
	}
}
