package pmi

import (
	"net"
	"sync"
)

// outbox writes answers to a client, in their order, from several goroutines. It never
// lets one wait for a client that does not read, save the one that serves it.
type outbox struct {
	conn   net.Conn
	mu     sync.Mutex
	idle   sync.Cond
	unsent []byte
	busy   bool // somebody writes
}

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn}
	o.idle.L = &o.mu
	return o
}

// say writes an answer, and what was to be written before it, and waits for that.
func (o *outbox) say(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy {
		o.idle.Wait()
	}
	o.unsent = append(o.unsent, text...)
	o.flush()
}

// post has an answer written, and does not wait.
func (o *outbox) post(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsent = append(o.unsent, text...)
	if !o.busy {
		o.busy = true
		go func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		}()
	}
}

// flush writes until nothing is left. The mutex is held by the caller, and free while it
// writes. A connection that has failed takes no more: its reader hears of it.
func (o *outbox) flush() {
	o.busy = true
	for len(o.unsent) > 0 {
		text := o.unsent
		o.unsent = nil
		o.mu.Unlock()
		_, err := o.conn.Write(text)
		o.mu.Lock()
		if err != nil {
			o.unsent = nil
			break
		}
		if o.unsent == nil {
			o.unsent = text[:0] // its memory again
		}
	}
	o.busy = false
	o.idle.Broadcast()
}

// settle waits until the client has read most of what it was sent.
func (o *outbox) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy && len(o.unsent) > maxUnsent {
		o.idle.Wait()
	}
}
