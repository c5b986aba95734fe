// Package reach knows how to reach a node's agent. Every way ends in the
// same thing: a byte stream that carries wire's frames.
package reach

import (
	"errors"
	"io"
	"sync"

	"gorun/launcher/internal/wire"
)

// Local returns the two ends of a stream in this process: one for the head, one
// for an agent that runs beside it. Writes never block; what is under way is
// bounded by the credit that wire's frames give for output.
func Local() (head, agent *wire.Link) {
	down, up := newStream(), newStream()
	return wire.NewLink(end{up, down}), wire.NewLink(end{down, up})
}

// end is one side of a pair of streams.
type end struct {
	in, out *stream
}

func (e end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e end) Write(p []byte) (int, error) { return e.out.write(p) }

// WriteShared is Write for bytes that nobody changes any more: they are not copied.
func (e end) WriteShared(p []byte) (int, error) { return e.out.writeShared(p) }

// Close ends both directions; what was written before can still be read.
func (e end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// stream is one direction. The writer fills one buffer while the reader empties
// the other, so that neither ever copies under the other's nose.
type stream struct {
	mu      sync.Mutex
	filled  sync.Cond
	before  [][]byte // written before writing, and not to be changed
	writing []byte
	reading []byte // read's own, from next on
	next    int
	kept    bool // reading is not ours to write into
	closed  bool
	limit   int // of writing, in bytes; 0: none
	shared  int // bytes in before
}

// errFull is the error of a stream whose other side takes nothing.
var errFull = errors.New("the other side takes nothing of what it is sent")

func newStream() *stream {
	s := &stream{}
	s.filled.L = &s.mu
	return s
}

// keepBuffer bounds the buffer that an idle stream keeps.
const keepBuffer = 4 << 20

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	if s.limit > 0 && len(s.writing)+len(p) > s.limit {
		return 0, errFull
	}
	s.writing = append(s.writing, p...)
	s.filled.Signal()
	return len(p), nil
}

// sharedTimes is how many times the limit may wait of what many streams share: all ranks of a large
// job say some 400 MiB at a fence.
const sharedTimes = 4

// writeShared keeps p as it is, so that what many streams are given is there once.
func (s *stream) writeShared(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	if s.limit > 0 && s.shared+len(s.writing)+len(p) > sharedTimes*s.limit {
		return 0, errFull
	}
	if len(s.writing) > 0 {
		s.shared += len(s.writing)
		s.before, s.writing = append(s.before, s.writing), nil
	}
	s.shared += len(p)
	s.before = append(s.before, p)
	s.filled.Signal()
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

// take returns what was written and not read yet, waiting for something if need be;
// nil at the end. It is valid until the next read or take.
func (s *stream) take() []byte {
	if s.next == len(s.reading) && !s.swap() {
		return nil
	}
	p := s.reading[s.next:]
	s.next = len(s.reading)
	return p
}

// swap takes what was written since, waiting for something if need be.
func (s *stream) swap() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.before)+len(s.writing) == 0 && !s.closed {
		s.filled.Wait()
	}
	if len(s.before) > 0 {
		s.reading, s.kept, s.next = s.before[0], true, 0
		s.before[0] = nil
		s.before = s.before[1:]
		s.shared -= len(s.reading)
		return true
	}
	spare := s.reading[:0]
	if s.kept || cap(spare) > keepBuffer {
		spare = nil
	}
	s.reading, s.writing, s.kept, s.next = s.writing, spare, false, 0
	return len(s.reading) > 0
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.filled.Broadcast()
}
