package launcher

import (
	"bytes"
	"sync"
	"sync/atomic"

	"gorun/launcher/internal/output"
)

// taps are those who follow what ranks print. Without any, a write costs a look.
type followers struct {
	count atomic.Int32
	mu    sync.RWMutex
	list  map[*follower]bool
}

// write hands bytes of a rank to those who follow. It never waits for them.
func (t *followers) write(rank, stream int, p []byte) {
	t.each(func(f *follower) { f.write(rank, stream, p) })
}

func (t *followers) each(do func(*follower)) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for f := range t.list {
		do(f)
	}
}

// add adds one who follows until remove is called.
func (t *followers) add(f *follower) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[*follower]bool{}
	}
	t.list[f] = true
	t.count.Add(1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.list, f)
		t.count.Add(-1)
	}
}

// channel is a stream of a rank.
type rankStream struct{ rank, stream int }

// newAttempt stands for all of them in a piece without bytes.
var attemptMark = rankStream{-1, -1}

type piece struct {
	rankStream
	bytes []byte
}

// follower collects what ranks print for one who reads it in his own time.
type follower struct {
	wants func(rank int) bool
	wake  chan struct{} // has one place

	mu       sync.Mutex
	excluded map[rankStream]bool // whose bytes come from elsewhere, or not yet
	pieces   []piece
	size     int
	overflow bool
}

// take keeps bytes for the reader, unless he is too far behind.
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
	case last >= 0 && f.pieces[last].rankStream == at: // ranks may write byte by byte
		f.pieces[last].bytes = append(f.pieces[last].bytes, p...)
	default:
		f.pieces = append(f.pieces, piece{at, bytes.Clone(p)})
	}
	f.wakeReader()
}

// rouse wakes the reader.
func (f *follower) wakeReader() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// turn marks that another attempt begins: what was left unfinished stays so.
func (f *follower) startAttempt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.overflow {
		f.pieces = append(f.pieces, piece{rankStream: attemptMark})
	}
	f.wakeReader()
}

// next is what has come since the last call.
func (f *follower) drain() (pieces []piece, overflow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pieces, f.pieces, f.size = f.pieces, nil, 0
	return pieces, f.overflow
}

// begin takes a stream from its last bytes on.
func (f *follower) startStream(c *output.Console, at rankStream) (last []byte, truncated bool) {
	c.Recent(at.rank, at.stream, func(end []byte, more bool) {
		last, truncated = bytes.Clone(end), more
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.excluded, at)
	})
	return last, truncated
}
