// Package reach connects the launcher to the agents of its nodes. Every way ends in a byte stream with wire's frames.
package reach

import (
	"errors"
	"io"
	"sync"

	"gorun/launcher/internal/wire"
)

// Local returns the two ends of a stream within this process: one for the head, one for an agent beside it. Writes
// never
// block; the credit that wire's frames give for output limits the bytes in flight.
func Local() (head, agent *wire.Link) {
	down, up := newStream(), newStream()
	return wire.NewLink(end{up, down}), wire.NewLink(end{down, up})
}

// end is one end of a pair of streams.
type end struct {
	in, out *stream
}

func (e end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e end) Write(p []byte) (int, error) { return e.out.write(p, false) }

// WriteShared is Write without a copy: nobody may change p afterwards.
func (e end) WriteShared(p []byte) (int, error) { return e.out.write(p, true) }

// Close closes both directions; data that was written before can still be read.
func (e end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// stream is one direction. The writer fills one buffer while the reader drains the other, so that neither copies under
// a lock that the other needs.
type stream struct {
	mu       sync.Mutex
	notEmpty sync.Cond
	sealed   [][]byte // written before writing; never modified
	writing  []byte
	reading  []byte // the reader's own, from next on
	next     int
	borrowed bool // reading was shared: it must not be reused
	closed   bool
	limit    int // bytes in writing; 0: unlimited
	shared   int // bytes in sealed
}

// errFull reports a stream whose other side does not read.
var errFull = errors.New("the peer does not read what it is sent")

func newStream() *stream {
	s := &stream{}
	s.notEmpty.L = &s.mu
	return s
}

// maxIdleBuffer limits the buffer that an idle stream keeps.
const maxIdleBuffer = 4 << 20

// sharedFactor multiplies the limit for shared data: all ranks of a large job send some 400 MiB at a fence.
const sharedFactor = 4

// write takes p: a copy, or p itself if it is shared, so that many streams can hold the same bytes.
func (s *stream) write(p []byte, shared bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used, limit := len(s.writing)+len(p), s.limit
	if shared {
		used, limit = used+s.shared, sharedFactor*limit
	}
	switch {
	case s.closed:
		return 0, io.ErrClosedPipe
	case limit > 0 && used > limit:
		return 0, errFull
	case !shared:
		s.writing = append(s.writing, p...)
	default:
		if len(s.writing) > 0 { // it comes before p
			s.sealed, s.writing = append(s.sealed, s.writing), nil
		}
		s.sealed = append(s.sealed, p)
		s.shared = used
	}
	s.notEmpty.Signal()
	return len(p), nil
}

func (s *stream) read(p []byte) (int, error) {
	if s.next == len(s.reading) && !s.swap() {
		return 0, io.EOF
	}
	n := copy(p, s.reading[s.next:])
	s.next += n
	return n, nil
}

// take waits for data and returns all that is unread, nil at the end. It is valid until the next read or take.
func (s *stream) take() []byte {
	if s.next == len(s.reading) && !s.swap() {
		return nil
	}
	p := s.reading[s.next:]
	s.next = len(s.reading)
	return p
}

// swap waits for data and makes it the reader's. It returns false at the end of the stream.
func (s *stream) swap() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sealed)+len(s.writing) == 0 && !s.closed {
		s.notEmpty.Wait()
	}
	if len(s.sealed) > 0 {
		s.reading, s.borrowed, s.next = s.sealed[0], true, 0
		s.sealed[0] = nil
		s.sealed = s.sealed[1:]
		s.shared -= len(s.reading)
		return true
	}
	spare := s.reading[:0]
	if s.borrowed || cap(spare) > maxIdleBuffer {
		spare = nil
	}
	s.reading, s.writing, s.borrowed, s.next = s.writing, spare, false, 0
	return len(s.reading) > 0
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.notEmpty.Broadcast()
}
