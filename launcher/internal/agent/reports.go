package agent

import (
	"sync"
	"time"
)

// reports tracks goroutines that will send a frame about the attempt. None may be sent after CleanedUp, as the head
// would attribute it to the next attempt. The zero value is ready to use.
type reports struct {
	mu      sync.Mutex
	over    bool
	pending sync.WaitGroup
}

// begin reports whether a frame may still be sent. If so, call end afterwards: the attempt waits for it.
func (w *reports) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.pending.Add(1)
	}
	return !w.over
}

func (w *reports) end() { w.pending.Done() }

// close waits for all pending reports and makes begin return false.
func (w *reports) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.pending.Wait()
}

// closeWithin is close, but does not wait longer than that.
func (w *reports) closeWithin(limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		w.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
}
