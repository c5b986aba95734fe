package output

import (
	"context"
	"io"
	"sync"
	"time"
)

const (
	blockSize  = 128 << 10 // bytes of one write at most
	keptBlocks = 32        // free blocks that an outlet keeps for reuse: the windows of four ranks
)

// block is a part of the queue: bytes to write, credit to give back then, and a channel to close.
type block struct {
	data    []byte
	credits []credit
	reached chan struct{} // closed when the block is done; nil in most
}

// credit is a number of bytes of a stream that have been written or dropped.
type credit struct {
	rank, stream, n int
}

// outlet is the queue of one destination and the goroutine that writes it, which the first bytes start: a silent job
// has none.
type outlet struct {
	w        io.Writer
	consumed func(rank, stream, n int)
	failed   func(error)
	// tick queues what is due and returns the time to the next tick, < 0 for none; mu is held
	tick func(now time.Time) time.Duration

	mu      sync.Mutex // guards all below, and the layout of the sink around it
	queue   []*block
	free    []*block
	started bool
	closed  bool // the goroutine ends when the queue is empty
	broken  bool // a write failed: bytes are dropped
	wake    chan struct{}
	ended   chan struct{} // closed when the goroutine has ended
}

func (o *outlet) init() {
	o.wake = make(chan struct{}, 1)
	o.ended = make(chan struct{})
}

// put queues a copy of p.
func (o *outlet) put(p []byte) {
	for len(p) > 0 {
		b := o.last()
		if len(b.data) >= blockSize {
			b = o.push()
		}
		n := min(len(p), blockSize-len(b.data))
		b.data = append(b.data, p[:n]...)
		p = p[n:]
	}
}

// credit queues credit to give back when everything queued so far has been written. A block has one sum for each
// stream: at is the index of the caller's last one, and is set if that is another's.
func (o *outlet) credit(at *int, c credit) {
	b := o.last()
	if *at < len(b.credits) && b.credits[*at].rank == c.rank && b.credits[*at].stream == c.stream {
		b.credits[*at].n += c.n
		return
	}
	*at = len(b.credits)
	b.credits = append(b.credits, c)
}

// mark returns a channel that is closed when everything queued so far has been written or dropped.
func (o *outlet) mark() <-chan struct{} {
	b := o.last()
	if b.reached == nil {
		b.reached = make(chan struct{})
	}
	return b.reached
}

func (o *outlet) last() *block {
	if len(o.queue) == 0 {
		return o.push()
	}
	return o.queue[len(o.queue)-1]
}

func (o *outlet) push() *block {
	var b *block
	if n := len(o.free); n > 0 {
		b, o.free = o.free[n-1], o.free[:n-1]
	} else {
		b = new(block)
	}
	o.queue = append(o.queue, b)
	return b
}

// signal wakes or starts the goroutine. mu is held.
func (o *outlet) signal() {
	if !o.started {
		o.started = true
		go o.run()
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes the queue until the outlet is closed and it is empty.
func (o *outlet) run() {
	defer close(o.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait, more := o.next()
		switch {
		case b != nil:
			o.write(b)
			continue
		case !more:
			return
		case wait >= 0:
			timer.Reset(wait)
		default:
			timer.Stop()
		}
		select {
		case <-o.wake:
		case <-timer.C:
		}
	}
}

// next takes the first block of the queue. Without one it returns how long to wait, and whether there can be more.
func (o *outlet) next() (b *block, wait time.Duration, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = -1
	if o.tick != nil {
		wait = o.tick(time.Now())
	}
	if len(o.queue) == 0 {
		return nil, wait, !o.closed
	}
	b = o.queue[0]
	n := copy(o.queue, o.queue[1:])
	o.queue[n] = nil
	o.queue = o.queue[:n]
	return b, wait, true
}

// write writes a block, gives back its credit and recycles it.
func (o *outlet) write(b *block) {
	if len(b.data) > 0 {
		o.deliver(b.data)
	}
	for _, c := range b.credits {
		o.consumed(c.rank, c.stream, c.n)
	}
	if b.reached != nil {
		close(b.reached)
	}
	b.data, b.credits, b.reached = b.data[:0], b.credits[:0], nil
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.free) < keptBlocks {
		o.free = append(o.free, b)
	}
}

// deliver writes the bytes unless an earlier write failed.
func (o *outlet) deliver(p []byte) {
	o.mu.Lock()
	broken := o.broken
	o.mu.Unlock()
	if broken {
		return
	}
	if err := writeAll(o.w, p); err != nil {
		o.mu.Lock()
		o.broken = true
		o.mu.Unlock()
		o.failed(err)
	}
}

// writeAll writes all of p, also to writers that write less without an error.
func writeAll(w io.Writer, p []byte) error {
	for len(p) > 0 {
		n, err := w.Write(p)
		if err != nil {
			return err
		}
		if n <= 0 || n > len(p) {
			return io.ErrShortWrite
		}
		p = p[n:]
	}
	return nil
}

// flush waits until everything queued so far has been written or dropped.
func (o *outlet) flush(ctx context.Context) error {
	o.mu.Lock()
	done := (<-chan struct{})(o.ended)
	switch {
	case !o.started:
		o.mu.Unlock()
		return nil
	case !o.closed:
		done = o.mark()
		o.signal()
	}
	o.mu.Unlock()
	return await(ctx, done)
}

// close ends the goroutine when the queue is empty. mu is held.
func (o *outlet) close() {
	o.closed = true
	if o.started || len(o.queue) > 0 {
		o.signal()
	}
}

// await waits for done, and prefers it to the end of the context.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
