package reach

import (
	"bufio"
	"io"
	"sync"
)

// Queued makes writes to a stream that never wait: what the other side does not take is
// kept, in order. Without it a link that was cut would hold up whoever has
// something to say to that node, and soon to any. How much is under way is bounded
// by those who write: output by its credit, all else is small. A peer that asks and asks
// and takes no answer loses the connection.
func Queued(rw io.ReadWriteCloser) io.ReadWriteCloser {
	q := &queued{rw: rw, in: bufio.NewReader(rw), out: newStream()}
	q.out.limit = maxQueued
	go q.flush()
	return q
}

// maxQueued bounds what waits to be taken, in bytes; the longest frame fits twice.
const maxQueued = 128 << 20

type queued struct {
	rw   io.ReadWriteCloser
	in   *bufio.Reader
	out  *stream
	once sync.Once
	err  error // of Close
}

func (q *queued) Read(p []byte) (int, error) { return q.in.Read(p) }

func (q *queued) Write(p []byte) (int, error) { return q.unlessFull(q.out.write(p)) }

// unlessFull ends the connection of a peer that takes nothing.
func (q *queued) unlessFull(n int, err error) (int, error) {
	if err == errFull {
		_ = q.Close()
	}
	return n, err
}

// WriteShared is Write for bytes that nobody changes any more: they are not copied.
func (q *queued) WriteShared(p []byte) (int, error) {
	return q.unlessFull(q.out.writeShared(p))
}

// flush writes what was queued. After an error everything is dropped: whoever reads
// from the other side learns of its end.
func (q *queued) flush() {
	for {
		p := q.out.take()
		if p == nil {
			return
		}
		if _, err := q.rw.Write(p); err != nil {
			q.out.close()
			return
		}
	}
}

// Close ends both directions at once; what was not written yet is lost.
func (q *queued) Close() error {
	q.once.Do(func() {
		q.out.close()
		q.err = q.rw.Close()
	})
	return q.err
}
