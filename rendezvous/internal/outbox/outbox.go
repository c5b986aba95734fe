// Package outbox sends messages to the clients of a server without waiting for clients that do not read.
package outbox

import (
	"cmp"
	"errors"
	"net"
	"sync"
	"syscall"
)

// Outbox sends messages to one client. Its methods may be called on any goroutine. No one else may write to the
// connection.
type Outbox struct {
	conn  net.Conn
	raw   syscall.RawConn // nil unless the connection is a socket
	limit int

	mu      sync.Mutex
	changed sync.Cond
	unsent  []byte
	writing int  // bytes that run is writing
	busy    bool // run is active
	err     error
}

// ErrUnread is the error of a connection whose client left too much unread.
var ErrUnread = errors.New("it does not read its replies")

// New returns the outbox of a connection. If more than limit bytes are unsent when another message comes, the
// connection is closed, so that at most limit bytes and one message are kept.
func New(conn net.Conn, limit int) *Outbox {
	o := &Outbox{conn: conn, limit: limit}
	o.changed.L = &o.mu
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			o.raw = raw
		}
	}
	return o
}

// Send sends a message after all earlier ones and does not keep b. It never waits, so that callers may hold locks: what
// the connection does not take at once is written by a goroutine. After the connection has ended it does nothing; the
// connection's reader notices.
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
		go o.run()
	}
}

// try writes what the connection takes at once, and returns the number of bytes.
func (o *Outbox) try(b []byte) (written int) {
	if o.raw == nil {
		return 0
	}
	var failed error
	err := o.raw.Write(func(fd uintptr) bool {
		for written < len(b) && failed == nil {
			n, err := syscall.Write(int(fd), b[written:])
			switch err {
			case nil:
				written += n
			case syscall.EINTR:
			case syscall.EAGAIN:
				return true
			default:
				failed = err
			}
		}
		return true
	})
	if err = cmp.Or(err, failed); err != nil {
		o.end(err)
	}
	return written
}

// run writes until nothing is unsent.
func (o *Outbox) run() {
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

// end drops what is unsent. The first error is kept. The caller holds mu.
func (o *Outbox) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.unsent = nil
	o.changed.Broadcast()
}

// Waiting returns the number of unsent bytes, 0 after the connection has ended. Callers use it to skip messages that
// may be lost.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting()
}

// Settle waits until at most that many bytes are unsent, or the connection has ended.
func (o *Outbox) Settle(most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.waiting() > max(most, 0) {
		o.changed.Wait()
	}
}

// Err returns why the connection has ended: ErrUnread, net.ErrClosed or an error of the connection; nil if it has not.
func (o *Outbox) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close closes the connection and drops what is unsent.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.end(net.ErrClosed)
	o.mu.Unlock()
	_ = o.conn.Close()
}
