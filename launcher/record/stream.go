package record

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// Limits of a stream.
const (
	maxPending = 100_000 // lines that wait for a slow file
	maxSize    = 8 << 20 // bytes before the end
)

// Stream writes lines in the background: whoever adds one never waits for the file, which may be slow.
type Stream struct {
	// Delay is how long lines wait for others, so that one write has several.
	Delay time.Duration
	// Bounded drops lines, except for the last ones, beyond some MiB.
	Bounded bool

	mu      sync.Mutex
	open    func() (io.WriteCloser, error) // nil before Start
	pending []func(io.Writer) error
	timer   *time.Timer
	lost    bool

	writing sync.Mutex // guards what follows
	file    io.WriteCloser
	size    int
	err     error
}

// Start has lines written to a file that open opens before the first one.
func (s *Stream) Start(open func() (io.WriteCloser, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
	s.arm()
}

func (s *Stream) arm() {
	if s.open != nil && s.timer == nil {
		s.timer = time.AfterFunc(s.Delay, func() { s.flush(false) })
	}
}

// Hurry ends the delay of what was added.
func (s *Stream) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Reset(0)
	}
}

// Add adds what write writes: whole lines.
func (s *Stream) Add(write func(io.Writer) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == maxPending {
		s.lost = true
		return
	}
	s.pending = append(s.pending, write)
	s.arm()
}

func (s *Stream) flush(last bool) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	list := s.pending
	s.pending, s.timer = nil, nil
	s.mu.Unlock()
	if s.err != nil || len(list) == 0 || s.Bounded && !last && s.size > maxSize {
		return
	}
	var text bytes.Buffer
	for _, write := range list {
		s.err = errors.Join(s.err, write(&text))
	}
	if s.file == nil && s.err == nil {
		s.file, s.err = s.open()
	}
	if s.err == nil {
		s.size += text.Len()
		_, s.err = s.file.Write(text.Bytes())
	}
}

// ErrSlow reports that lines are lost.
var ErrSlow = errors.New("lines are lost, as they cannot be written fast enough")

// Close writes the remaining lines, but gives up after a while.
func (s *Stream) Close(limit time.Duration) error {
	closed := make(chan error, 1)
	go func() {
		s.flush(true)
		s.writing.Lock()
		defer s.writing.Unlock()
		if s.file != nil {
			s.err = errors.Join(s.err, s.file.Close())
		}
		if s.err == nil && s.lost {
			s.err = ErrSlow
		}
		closed <- s.err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(limit):
		return ErrSlow
	}
}
