package launcher

import (
	"bytes"
	"sync"

	"gorun/launcher/internal/output"
)

// followers are clients that follow the ranks' output.
type followers struct {
	mu   sync.RWMutex
	list map[*follower]bool
}

// write never blocks.
func (t *followers) write(rank, stream int, p []byte) {
	t.each(func(f *follower) { f.write(rank, stream, p) })
}

func (t *followers) each(do func(*follower)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for f := range t.list {
		do(f)
	}
}

func (t *followers) add(f *follower) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[*follower]bool{}
	}
	t.list[f] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.list, f)
	}
}

// rankStream is an output stream of a rank.
type rankStream struct{ rank, stream int }

// attemptMark marks the beginning of another attempt in a follower's pieces.
var attemptMark = rankStream{-1, -1}

type piece struct {
	rankStream
	bytes []byte
}

// follower buffers output of ranks for one client.
type follower struct {
	wants func(rank int) bool
	wake  chan struct{} // buffered

	mu       sync.Mutex
	excluded map[rankStream]bool // streams that come from elsewhere, or are not started yet
	pieces   []piece
	size     int
	overflow bool
}

// write drops everything once the client is too far behind.
func (f *follower) write(rank, stream int, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := rankStream{rank, stream}
	if f.overflow || f.excluded[at] || !f.wants(rank) {
		return
	}
	last := len(f.pieces) - 1
	switch f.size += len(p); {
	case f.size > maxBacklog:
		f.overflow, f.pieces = true, nil
	case last >= 0 && f.pieces[last].rankStream == at:
		f.pieces[last].bytes = append(f.pieces[last].bytes, p...)
	default:
		f.pieces = append(f.pieces, piece{at, bytes.Clone(p)})
	}
	f.wakeReader()
}

func (f *follower) wakeReader() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// startAttempt marks the beginning of another attempt.
func (f *follower) startAttempt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.overflow {
		f.pieces = append(f.pieces, piece{rankStream: attemptMark})
	}
	f.wakeReader()
}

// drain returns what has arrived since the last call.
func (f *follower) drain() (pieces []piece, overflow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pieces, f.pieces, f.size = f.pieces, nil, 0
	return pieces, f.overflow
}

// startStream returns the recent bytes of a stream and includes what follows.
func (f *follower) startStream(c *output.Console, at rankStream) (last []byte, truncated bool) {
	c.Recent(at.rank, at.stream, func(end []byte, more bool) {
		last, truncated = bytes.Clone(end), more
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.excluded, at)
	})
	return last, truncated
}
