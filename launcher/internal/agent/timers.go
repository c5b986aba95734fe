package agent

import (
	"sync"
	"time"
)

// timers are what a job has to do later, while it lasts.
type timers struct {
	mu      sync.Mutex
	over    bool
	last    int
	pending map[int]*time.Timer
}

// after has something done on a goroutine of its own, unless the job ends before.
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

// unlessOver does something that the end of the job waits for.
func (t *timers) unlessOver(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		do()
	}
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, timer := range t.pending {
		timer.Stop()
	}
}
