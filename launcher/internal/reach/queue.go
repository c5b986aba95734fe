package reach

import (
	"bufio"
	"io"
	"sync"
)

// Queued returns a stream whose writes never block: it queues what the other side does not read yet. Without it, a dead
// link would block every sender to that node. The writers limit the bytes in flight: output by its credit, all else is
// small. A peer that sends requests and reads no answers loses the connection.
func Queued(rw io.ReadWriteCloser) io.ReadWriteCloser {
	q := &queue{rw: rw, in: bufio.NewReader(rw), out: newStream()}
	q.out.limit = maxQueued
	go q.flush()
	return q
}

// maxQueued is the limit in bytes; two of the longest frames fit.
const maxQueued = 128 << 20

type queue struct {
	rw       io.ReadWriteCloser
	in       *bufio.Reader
	out      *stream
	once     sync.Once
	closeErr error
}

func (q *queue) Read(p []byte) (int, error) { return q.in.Read(p) }

func (q *queue) Write(p []byte) (int, error) { return q.write(p, false) }

// WriteShared is Write without a copy: nobody may change p afterwards.
func (q *queue) WriteShared(p []byte) (int, error) { return q.write(p, true) }

func (q *queue) write(p []byte, shared bool) (int, error) {
	n, err := q.out.write(p, shared)
	if err == errFull {
		_ = q.Close()
	}
	return n, err
}

// flush writes the queue. After an error it drops everything: the reader notices the end of the connection.
func (q *queue) flush() {
	for p := q.out.take(); p != nil; p = q.out.take() {
		if _, err := q.rw.Write(p); err != nil {
			q.out.close()
			return
		}
	}
}

// Close closes both directions at once, and drops the queue.
func (q *queue) Close() error {
	q.once.Do(func() {
		q.out.close()
		q.closeErr = q.rw.Close()
	})
	return q.closeErr
}
