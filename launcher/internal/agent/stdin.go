package agent

import (
	"fmt"
	"slices"
	"sync"

	"gorun/launcher/internal/wire"
)

// stdin passes input frames to ranks, with a goroutine per rank, so that a rank that does not read blocks no other. The
// head sends only as much as it has credit for. It is safe for concurrent use.
type stdin struct {
	job    *job
	mu     sync.Mutex // guards all below
	feeds  map[int]*feed
	closed bool
}

// feed is the input of one rank, guarded by stdin.mu.
type feed struct {
	more    sync.Cond
	waiting []byte
	ended   bool
}

// maxInput bounds the input waiting for one rank, in bytes. The head's window is smaller.
const maxInput = 1 << 20

func newStdin(j *job) *stdin {
	return &stdin{job: j, feeds: map[int]*feed{}}
}

// write queues input for a rank; no bytes mean its end. It does not block. Input may arrive for ranks that this
// node has refused to start.
func (s *stdin) write(rank int, p []byte) error {
	if s.job.refused != nil {
		return nil
	}
	if !slices.Contains(s.job.start.Stdio.Piped, rank) || s.job.rank(rank) == nil {
		return fmt.Errorf("agent: input for rank %d, which does not read stdin on this node", rank)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[rank]
	switch {
	case s.closed:
		return nil
	case f == nil:
		f = &feed{}
		f.more.L = &s.mu
		s.feeds[rank] = f
		go s.feed(rank, f)
	}
	if len(f.waiting)+len(p) > maxInput {
		return fmt.Errorf("agent: more unread input for rank %d than the limit", rank)
	}
	if !f.ended {
		f.waiting, f.ended = append(f.waiting, p...), len(p) == 0
		f.more.Signal()
	}
	return nil
}

// next waits for input and returns all of it; none means the end.
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

// feed writes to one rank until its input ends or the rank closes it.
func (s *stdin) feed(rank int, f *feed) {
	<-s.job.startDone
	w := s.job.group.Stdin(rank)
	if w == nil { // not started
		return
	}
	defer w.Close()
	for p := s.next(f); len(p) > 0; p = s.next(f) {
		_, _ = w.Write(p) // the rank may have closed its stdin
		s.job.timers.unlessOver(func() { _ = s.job.agent.link.Send(&wire.Credit{Stream: 0, Bytes: len(p)}) })
	}
}

// close ends every rank's input.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, f := range s.feeds {
		f.ended = true
		f.more.Signal()
	}
}
