package agent

import (
	"sync"
	"time"
)

// timers are the pending delayed calls of a job. It is safe for concurrent use; the zero value is ready to use.
type timers struct {
	mu      sync.Mutex
	over    bool
	last    int
	pending map[int]*time.Timer
}

// after calls do on its own goroutine after d, unless the job ends before.
func (t *timers) after(d time.Duration, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	if t.pending == nil {
		t.pending = map[int]*time.Timer{}
	}
	t.last++
	id := t.last
	t.pending[id] = time.AfterFunc(d, func() {
		t.mu.Lock()
		delete(t.pending, id)
		t.mu.Unlock()
		do()
	})
}

// unlessOver calls do unless the job ends; the end then waits for it. do must not call methods of t.
func (t *timers) unlessOver(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		do()
	}
}

// stop cancels all pending calls and waits for unlessOver, but not for functions that have been called already.
func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, timer := range t.pending {
		timer.Stop()
	}
}
