package agent

import (
	"sync"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// credit bounds what is under way to the head: a stream whose credit is used up
// is not read until the head has written something out. Ranks that write on
// then wait in their own write calls, and nothing else waits.
type credit struct {
	group *process.Group

	mu    sync.Mutex
	left  [3]int // by stream, in bytes
	stops [3]bool
}

func newCredit(window int, group *process.Group) *credit {
	return &credit{group: group, left: [3]int{0, window, window}}
}

func (c *credit) take(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] -= n
	c.apply(stream)
}

func (c *credit) add(stream, n int) {
	if stream != 1 && stream != 2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[stream] += n
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
	job   *running
	mu    sync.Mutex
	feeds map[int]chan []byte
}

// stdinFrames bounds the frames that wait for one rank; the head's window keeps
// below it.
const stdinFrames = 64

func newStdin(j *running) *stdin {
	return &stdin{job: j, feeds: map[int]chan []byte{}}
}

// write hands a rank its input; no bytes are the end of it.
func (s *stdin) write(rank int, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	feed, ok := s.feeds[rank]
	if !ok {
		feed = make(chan []byte, stdinFrames)
		s.feeds[rank] = feed
		go s.feed(rank, feed)
	}
	if feed == nil {
		return
	}
	if len(p) == 0 {
		close(feed)
		s.feeds[rank] = nil
		return
	}
	feed <- append([]byte(nil), p...)
}

// feed writes to one rank until its input ends or it no longer reads.
func (s *stdin) feed(rank int, input <-chan []byte) {
	<-s.job.spawned
	w := s.job.group.Stdin(rank)
	defer w.Close()
	for p := range input {
		_, _ = w.Write(p) // a rank that closed its input is no error
		_ = s.job.agent.link.Send(&wire.Credit{Stream: 0, Bytes: len(p)})
	}
}

// close ends every rank's input.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rank, feed := range s.feeds {
		if feed != nil {
			close(feed)
			s.feeds[rank] = nil
		}
	}
}
