package agent

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// credit bounds what is under way to the head: a stream whose credit is used up
// is not read until the head has written something out. Ranks that write on
// then wait in their own write calls, and nothing else waits.
type credit struct {
	group *process.Group

	limit int // of each stream, in bytes

	mu    sync.Mutex
	left  [3]int // by stream, in bytes
	stops [3]bool
}

func newCredit(window int, group *process.Group) *credit {
	return &credit{group: group, limit: window, left: [3]int{0, window, window}}
}

func (c *credit) take(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] -= n
	c.apply(stream)
}

func (c *credit) add(stream, n int) {
	if stream != 1 && stream != 2 || n <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] += min(n, c.limit-c.left[stream]) // more than was taken is never given back
	c.apply(stream)
}

// apply stops or restarts the reading of a stream, under the lock so that the
// group sees the changes in their order.
func (c *credit) apply(stream int) {
	if stop := c.left[stream] <= 0; stop != c.stops[stream] {
		c.stops[stream] = stop
		if stop {
			c.group.Pause(stream)
		} else {
			c.group.Resume(stream)
		}
	}
}

// stdin feeds the ranks that read the launcher's standard input through frames.
// Each has a goroutine of its own, so that one that does not read holds up
// nobody; the head sends no more than it has been told was read.
type stdin struct {
	job   *job
	mu    sync.Mutex
	feeds map[int]*feed
}

// feed is the input of one rank. stdin's lock holds for it.
type feed struct {
	more    sync.Cond
	waiting []byte
	ended   bool
}

// maxInput bounds the input that waits for one rank, in bytes; the head's window keeps
// below it.
const maxInput = 1 << 20

func newStdin(j *job) *stdin {
	return &stdin{job: j, feeds: map[int]*feed{}}
}

// write hands a rank its input; no bytes are the end of it. It never waits. Input may be on its way to ranks that this
// node has refused to start.
func (s *stdin) write(rank int, p []byte) error {
	if s.job.refused != nil {
		return nil
	}
	if !slices.Contains(s.job.start.Stdio.Piped, rank) || s.job.rank(rank) == nil {
		return fmt.Errorf("agent: input for rank %d, which reads none of it here", rank)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[rank]
	if f == nil {
		f = &feed{}
		f.more.L = &s.mu
		s.feeds[rank] = f
		go s.feed(rank, f)
	}
	if len(f.waiting)+len(p) > maxInput {
		return fmt.Errorf("agent: more input for rank %d than it was said to have read", rank)
	}
	if !f.ended {
		f.waiting, f.ended = append(f.waiting, p...), len(p) == 0
		f.more.Signal()
	}
	return nil
}

// next waits for input of a rank, and returns all of it; none is the end.
func (s *stdin) next(f *feed) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(f.waiting) == 0 && !f.ended {
		f.more.Wait()
	}
	p := f.waiting
	f.waiting = nil
	return p
}

// feed writes to one rank until its input ends or it no longer reads. What ranks had not read when the attempt ended is
// not the next one's.
func (s *stdin) feed(rank int, f *feed) {
	<-s.job.startDone
	var w io.WriteCloser
	if s.job.group != nil {
		w = s.job.group.Stdin(rank)
	}
	if w == nil { // it was not started
		return
	}
	defer w.Close()
	for p := s.next(f); len(p) > 0; p = s.next(f) {
		_, _ = w.Write(p) // a rank that closed its input is no error
		s.job.timers.unlessOver(func() { _ = s.job.agent.link.Send(&wire.Credit{Stream: 0, Bytes: len(p)}) })
	}
}

// close ends every rank's input.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		f.ended = true
		f.more.Signal()
	}
}
