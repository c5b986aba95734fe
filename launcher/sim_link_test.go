package launcher

import (
	"io"
	"sync"
	"time"
)

// flight is one direction of a link in memory. Data can be read after a delay. Writes never block.
type flight struct {
	mu      sync.Mutex
	arrived sync.Cond
	delay   time.Duration
	flying  []parcel
	ready   []byte
	timer   *time.Timer
	cut     bool   // writes are lost
	ended   bool   // no more data follows
	marked  bool   // a mark was written
	taken   func() // called when the reader has read the mark and wants more
}

// parcel is the data of one write; nil is end-of-file.
type parcel struct {
	due  time.Time
	data []byte
}

func newFlight(delay time.Duration) *flight {
	f := &flight{delay: delay}
	f.arrived.L = &f.mu
	return f
}

func (f *flight) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0, io.ErrClosedPipe
	}
	f.send(append([]byte{}, p...))
	return len(p), nil
}

// mark reports when the reader has processed all data written so far.
func (f *flight) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marked = true
}

// close delivers the written data and then end-of-file.
func (f *flight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(nil)
}

func (f *flight) send(p []byte) {
	if f.cut {
		return
	}
	f.flying = append(f.flying, parcel{time.Now().Add(f.delay), p})
	switch {
	case f.timer == nil:
		f.timer = time.AfterFunc(f.delay, f.land)
	case len(f.flying) == 1:
		f.timer.Reset(f.delay)
	}
}

// land makes data readable whose delay has passed.
func (f *flight) land() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for len(f.flying) > 0 && !f.flying[0].due.After(now) {
		if f.ready = append(f.ready, f.flying[0].data...); f.flying[0].data == nil {
			f.ended = true
		}
		f.flying = f.flying[1:]
	}
	if len(f.flying) == 0 {
		f.flying = nil
	} else {
		f.timer.Reset(f.flying[0].due.Sub(now))
	}
	f.arrived.Broadcast()
}

func (f *flight) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.ready) == 0 && !f.ended {
		if f.marked && len(f.flying) == 0 && f.taken != nil {
			f.marked = false
			f.taken()
		}
		f.arrived.Wait()
	}
	if len(f.ready) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.ready)
	if f.ready = f.ready[n:]; len(f.ready) == 0 {
		f.ready = nil
	}
	return n, nil
}

// lose drops data in transit and all later writes.
func (f *flight) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut, f.flying = true, nil
}

// end makes all later reads return end-of-file.
func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.arrived.Broadcast()
}

// linkEnd is one end of a link.
type linkEnd struct{ in, out *flight }

func (l linkEnd) Read(p []byte) (int, error)  { return l.in.Read(p) }
func (l linkEnd) Write(p []byte) (int, error) { return l.out.Write(p) }

func (l linkEnd) Close() error {
	l.out.close()
	l.in.end()
	return nil
}
