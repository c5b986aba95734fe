package agent

import "sync"

// words are what goroutines have yet to tell the head of an attempt. It hears of no attempt after
// that is gone from this node: the next one might take it for its own.
type reports struct {
	mu     sync.Mutex
	over   bool
	saying sync.WaitGroup
}

// begin reports whether there is still somebody to tell. If so the attempt is not over before end
// was called.
func (w *reports) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.saying.Add(1)
	}
	return !w.over
}

func (w *reports) end() { w.saying.Done() }

// close waits for all that began, and lets nobody begin any more.
func (w *reports) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.saying.Wait()
}
