package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"gorun/internal/printable"
)

// errStuck is the cause of failure of a disk that takes longer than DiskPatience for a write.
var errStuck = fmt.Errorf("no progress for %v", DiskPatience)

const (
	keptBuffers = 4       // free buffers that a disk keeps for reuse
	keptBuffer  = 1 << 20 // the largest that it keeps
)

// logFile is an open log file, with the bytes that wait to be written to it.
type logFile struct {
	path  string
	w     io.WriteCloser
	owner credit // whose credit comes back; n is that of the bytes that wait

	waiting  []byte
	queued   bool  // in the disk's queue
	finished bool  // nothing more comes
	err      error // why the file is incomplete
}

// disk writes log files, from one goroutine, which the first bytes start.
type disk struct {
	place    place
	consumed func(rank, stream, n int)
	failed   func(path string, err error)

	mu      sync.Mutex
	files   []*logFile
	queue   []*logFile // those with something to write, or to be closed
	free    [][]byte
	causes  []error // that have been reported
	writing *batch  // in a write now
	started bool
	closed  bool
	stuck   bool // a write took too long: nothing is written any more
	wake    chan struct{}
	ended   chan struct{} // closed when everything queued has been dealt with after close
}

// batch is what one write takes.
type batch struct {
	file  *logFile
	data  []byte
	owed  credit
	last  bool // the file is to be closed
	since time.Time
}

func newDisk(plan LogPlan) *disk {
	d := &disk{
		place:    plan.place(),
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

// open opens a file and takes charge of it.
func (d *disk) open(path string) (*logFile, error) {
	file, err := openLog(d.place, path)
	if err != nil {
		return nil, err
	}
	f := &logFile{path: path, w: file}
	d.files = append(d.files, f)
	return f, nil
}

// add queues bytes for a file, with the credit that their leaving gives back.
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

// finish has the file closed when its bytes are written.
func (d *disk) finish(f *logFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !f.finished {
		f.finished = true
		d.enqueue(f)
	}
}

// enqueue has the goroutine look at the file. mu is held.
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

// run writes what is queued until the disk is closed and nothing is left, or a write got stuck.
func (d *disk) run() {
	patience := time.AfterFunc(time.Hour, d.giveUp)
	defer patience.Stop()
	for b := d.next(); b != nil; b = d.next() {
		patience.Reset(DiskPatience)
		err := b.write()
		if !d.settle(b, err) {
			return
		}
	}
}

// next waits for the next batch; nil means that the disk is closed and nothing is left.
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

// take takes all that the first file in the queue has to write; nil when the queue is empty. mu is held.
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

// write writes the bytes, and closes the file when nothing more comes: that too can fail, with what a network's disk
// has put off.
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

// settle does the accounts of a write that has returned. It is false when the write took so long that giveUp did them.
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
	news := d.fail(b.file, err)
	d.mu.Unlock()
	d.tell(b.file, news)
	d.pay(b.owed)
	return true
}

// fail marks the file as incomplete and returns the cause if it is to be reported. mu is held.
func (d *disk) fail(f *logFile, err error) (news error) {
	if err == nil || f.err != nil {
		return nil
	}
	f.err, f.waiting = cause(err), nil
	for _, known := range d.causes {
		if errors.Is(f.err, known) {
			return nil
		}
	}
	d.causes = append(d.causes, f.err)
	return f.err
}

func (d *disk) tell(f *logFile, news error) {
	if news != nil {
		d.failed(f.path, news)
	}
}

func (d *disk) pay(c credit) {
	if c.n > 0 {
		d.consumed(c.rank, c.stream, c.n)
	}
}

// cause returns what is under an error that names a path.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// giveUp is called when a write has taken too long: no file is written from here on, and in place of run it gives back
// all credit, that of bytes still to come too.
func (d *disk) giveUp() {
	d.mu.Lock()
	stuck := d.writing
	if stuck == nil || time.Since(stuck.since) < DiskPatience {
		d.mu.Unlock()
		return // that write has returned; this is late
	}
	d.stuck = true
	news := d.fail(stuck.file, errStuck)
	for _, f := range d.files {
		_ = d.fail(f, errStuck)
	}
	d.mu.Unlock()
	d.tell(stuck.file, news)
	d.pay(stuck.owed)
	for b := d.next(); b != nil; b = d.next() {
		d.pay(b.owed)
	}
}

// close waits until everything queued is written or dropped, and tells what is incomplete.
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
	return fmt.Errorf("log %s and %d others are incomplete: %w", printable.Text(first.path), others, first.err)
}

// closeFiles closes all files at once, when nothing has been written to them.
func (d *disk) closeFiles() {
	for _, f := range d.files {
		_ = f.w.Close()
	}
}
