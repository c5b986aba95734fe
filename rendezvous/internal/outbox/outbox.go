// Package outbox writes to the clients of a server, from any goroutine, and never has one
// of these wait for a client that does not read.
package outbox

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// Outbox is what is on its way to one client. Nobody else writes to its connection.
type Outbox struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: the connection is no socket
	limit int

	mu      sync.Mutex
	changed sync.Cond
	unsent  []byte
	writing int  // bytes that the goroutine writes now
	busy    bool // it is there
	err     error
	once    attempt
}

// attempt is one write that does not wait.
type attempt struct {
	piece   []byte
	written int
	err     error
	run     func(fd uintptr) bool
}

// ErrUnread is why a connection ended whose client left more unread than it may.
var ErrUnread = errors.New("it does not read what it is sent")

// New is the outbox of a connection. Where more than limit bytes wait to be written and
// something more is sent, the connection is closed: what waits takes no more than limit
// bytes and one message.
func New(conn net.Conn, limit int) *Outbox {
	o := &Outbox{conn: conn, limit: limit}
	o.changed.L = &o.mu
	o.once.run = o.once.write
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			o.raw = raw
		}
	}
	return o
}

// Send writes a message after all that was sent before, and keeps nothing of b. It does not
// wait, so that locks may be held: what the connection does not take at once is written by
// a goroutine, which is there for as long as something waits. A connection that has ended
// takes no more; its reader hears of that.
func (o *Outbox) Send(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return
	case o.waiting() > o.limit:
		o.end(ErrUnread)
		_ = o.conn.Close()
		return
	case !o.busy:
		b = b[o.try(b):]
	}
	if len(b) == 0 || o.err != nil {
		return
	}
	if o.unsent = append(o.unsent, b...); !o.busy {
		o.busy = true
		go o.write()
	}
}

// try writes what the connection takes at once, and gives the number of bytes.
func (o *Outbox) try(b []byte) int {
	if o.raw == nil {
		return 0
	}
	a := &o.once
	a.piece, a.written, a.err = b, 0, nil
	err := o.raw.Write(a.run)
	if a.piece = nil; err == nil {
		err = a.err
	}
	if err != nil {
		o.end(err)
	}
	return a.written
}

// write is called by the connection, which waits for nothing after it has said true.
func (a *attempt) write(fd uintptr) bool {
	for a.written < len(a.piece) {
		n, err := syscall.Write(int(fd), a.piece[a.written:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			a.err = err
			return true
		default:
			a.written += n
		}
	}
	return true
}

// write is the goroutine: it writes until nothing waits.
func (o *Outbox) write() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.unsent) > 0 {
		piece := o.unsent
		o.unsent, o.writing = nil, len(piece)
		o.mu.Unlock()
		_, err := o.conn.Write(piece)
		o.mu.Lock()
		if o.writing = 0; err != nil {
			o.end(err)
		}
		o.changed.Broadcast()
	}
	o.busy = false
}

// waiting is Waiting. The caller holds mu.
func (o *Outbox) waiting() int {
	if o.err != nil {
		return 0
	}
	return len(o.unsent) + o.writing
}

// end has nothing more be written. The first error counts. The caller holds mu.
func (o *Outbox) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.unsent = nil
	o.changed.Broadcast()
}

// Waiting is how many bytes wait to be written, 0 where nothing more is: who has something
// to tell that may as well be left out looks first.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting()
}

// Settle waits until no more than that many bytes wait to be written, or the connection has
// ended.
func (o *Outbox) Settle(most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.waiting() > max(most, 0) {
		o.changed.Wait()
	}
}

// Err is why nothing more is written: ErrUnread, net.ErrClosed or an error of the
// connection; nil: it is not so.
func (o *Outbox) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close closes the connection. What waits is lost.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.end(net.ErrClosed)
	o.mu.Unlock()
	_ = o.conn.Close()
}
