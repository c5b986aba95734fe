package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"gorun/internal/printable"
)

// errStuck is the failure of a disk that takes longer than DiskTimeout for a write.
var errStuck = fmt.Errorf("no progress for %v", DiskTimeout)

const (
	keptBuffers = 4       // free buffers that a disk keeps for reuse
	keptBuffer  = 1 << 20 // the largest that it keeps
)

// logFile is an open log file, with the bytes that wait for it.
type logFile struct {
	path  string
	w     io.WriteCloser
	owner credit // the stream of the waiting bytes, and their credit

	waiting  []byte
	queued   bool  // in the disk's queue
	finished bool  // no more bytes come
	err      error // why the file is incomplete
}

// disk writes log files on one goroutine, which the first bytes start.
type disk struct {
	root     logRoot
	consumed func(rank, stream, n int)
	failed   func(path string, err error)

	mu      sync.Mutex
	files   []*logFile
	queue   []*logFile // those with bytes to write, or to be closed
	free    [][]byte
	causes  []error // reported ones
	writing *batch  // the current write
	started bool
	closed  bool
	stuck   bool // a write took too long, and no more follow
	wake    chan struct{}
	ended   chan struct{} // closed when the queue is empty after close
}

// batch is one write.
type batch struct {
	file  *logFile
	data  []byte
	owed  credit
	last  bool // close the file
	since time.Time
}

func newDisk(plan LogPlan) *disk {
	d := &disk{
		root:     plan.logRoot(),
		consumed: plan.Consumed,
		failed:   plan.Failed,
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
	if d.consumed == nil {
		d.consumed = func(int, int, int) {}
	}
	if d.failed == nil {
		d.failed = func(string, error) {}
	}
	return d
}

// open opens a file, which close closes.
func (d *disk) open(path string) (*logFile, error) {
	file, err := openLog(d.root, path)
	if err != nil {
		return nil, err
	}
	f := &logFile{path: path, w: file}
	d.files = append(d.files, f)
	return f, nil
}

// add queues bytes for a file, with the credit to give back for them.
func (d *disk) add(f *logFile, p []byte, credit int) {
	if len(p) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.finished {
		return
	}
	f.owner.n += credit
	if f.err == nil {
		if n := len(d.free); f.waiting == nil && n > 0 {
			f.waiting, d.free = d.free[n-1], d.free[:n-1]
		}
		f.waiting = append(f.waiting, p...)
	}
	d.enqueue(f)
}

// finish closes the file when its bytes are written.
func (d *disk) finish(f *logFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !f.finished {
		f.finished = true
		d.enqueue(f)
	}
}

// enqueue makes the goroutine handle the file. mu is held.
func (d *disk) enqueue(f *logFile) {
	if !f.queued {
		f.queued = true
		d.queue = append(d.queue, f)
	}
	if !d.started {
		d.started = true
		go d.run()
	}
	d.signal()
}

func (d *disk) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run writes the queue until the disk is closed and it is empty, or a write got stuck.
func (d *disk) run() {
	timeout := time.AfterFunc(time.Hour, d.abandon)
	defer timeout.Stop()
	for b := d.next(); b != nil; b = d.next() {
		timeout.Reset(DiskTimeout)
		err := b.write()
		if !d.settle(b, err) {
			d.closeFiles()
			return
		}
	}
}

// next waits for the next batch; nil means that the disk is closed and the queue is empty.
func (d *disk) next() *batch {
	for {
		d.mu.Lock()
		b, closed := d.take(), d.closed
		d.mu.Unlock()
		switch {
		case b != nil:
			return b
		case closed:
			close(d.ended)
			return nil
		}
		<-d.wake
	}
}

// take returns all bytes of the first file in the queue; nil if that is empty. mu is held.
func (d *disk) take() *batch {
	if len(d.queue) == 0 {
		return nil
	}
	f := d.queue[0]
	d.queue = d.queue[1:]
	b := &batch{file: f, data: f.waiting, owed: f.owner, last: f.finished, since: time.Now()}
	f.waiting, f.queued, f.owner.n = nil, false, 0
	d.writing = b
	return b
}

// write writes the bytes, and closes a finished file: a network file system may report errors only then.
func (b *batch) write() error {
	var err error
	if len(b.data) > 0 {
		err = writeAll(b.file.w, b.data)
	}
	if b.last {
		err = errors.Join(err, b.file.w.Close())
	}
	return err
}

// settle records the result of a write. It returns false if the write took so long that abandon has done so.
func (d *disk) settle(b *batch, err error) bool {
	d.mu.Lock()
	if d.stuck {
		d.mu.Unlock()
		return false
	}
	if len(d.free) < keptBuffers && cap(b.data) > 0 && cap(b.data) <= keptBuffer {
		d.free = append(d.free, b.data[:0])
	}
	d.writing = nil
	failure := d.fail(b.file, err)
	d.mu.Unlock()
	d.report(b.file, failure)
	d.release(b.owed)
	return true
}

// fail marks the file as incomplete and returns the cause if it is a new one. mu is held.
func (d *disk) fail(f *logFile, err error) (failure error) {
	if err == nil || f.err != nil {
		return nil
	}
	f.err, f.waiting = printable.Cause(err), nil
	if slices.ContainsFunc(d.causes, func(known error) bool { return errors.Is(f.err, known) }) {
		return nil
	}
	d.causes = append(d.causes, f.err)
	return f.err
}

func (d *disk) report(f *logFile, failure error) {
	if failure != nil {
		d.failed(f.path, failure)
	}
}

func (d *disk) release(c credit) {
	if c.n > 0 {
		d.consumed(c.rank, c.stream, c.n)
	}
}

// abandon stops writing after a write that has taken too long, and gives back all credit in place of run, also for
// bytes that are still to come.
func (d *disk) abandon() {
	d.mu.Lock()
	stuck := d.writing
	if stuck == nil || time.Since(stuck.since) < DiskTimeout {
		d.mu.Unlock()
		return // that write has returned
	}
	d.stuck = true
	failure := d.fail(stuck.file, errStuck)
	for _, f := range d.files {
		_ = d.fail(f, errStuck)
	}
	d.mu.Unlock()
	d.report(stuck.file, failure)
	d.release(stuck.owed)
	for b := d.next(); b != nil; b = d.next() {
		d.release(b.owed)
	}
}

// close waits until the queue is written or dropped. Its error names incomplete files.
func (d *disk) close(ctx context.Context) error {
	d.mu.Lock()
	for _, f := range d.files {
		if !f.finished {
			f.finished = true
			d.enqueue(f)
		}
	}
	d.closed = true
	running := d.started
	d.signal()
	d.mu.Unlock()
	if running {
		if err := await(ctx, d.ended); err != nil {
			return fmt.Errorf("write the ranks' log files: %w", err)
		}
	}
	return d.incomplete()
}

// incomplete returns an error that names the first incomplete file and counts the others.
func (d *disk) incomplete() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first *logFile
	others := 0
	for _, f := range d.files {
		switch {
		case f.err == nil:
		case first == nil:
			first = f
		default:
			others++
		}
	}
	switch {
	case first == nil:
		return nil
	case others == 0:
		return fmt.Errorf("log %s is incomplete: %w", printable.Text(first.path), first.err)
	}
	return fmt.Errorf("log %s and %d more are incomplete: %w", printable.Text(first.path), others, first.err)
}

// closeFiles closes all files, when nothing is written to them: before anything was queued, or after abandon.
func (d *disk) closeFiles() {
	for _, f := range d.files {
		_ = f.w.Close()
	}
}
