//go:build cgo

package cpu

import (
	"runtime"
	"time"

	"gorun/comm/internal/backend"
)

// turns keeps the Go scheduler from preempting calls. If one goroutine runs for 10 ms (retake in Go's proc.go), the
// scheduler takes the processor away from its C call. It then polls every 20 µs for a while.
//
// Each poll wakes a thread, which costs ranks that share CPUs more than their calls. A barrier of 4 ranks on 2 CPUs
// took 5.1 µs, and takes 3.2 µs with turns. A goroutine that yields more often than every 10 ms is not preempted.
// Usually no other goroutine is runnable, so yielding is cheap.
type turns struct {
	work  int // calls since the last look at the clock, plus one for each perCall bytes
	began time.Time
}

const (
	turn    = 5 * time.Millisecond
	look    = 64      // calls
	perCall = 8 << 10 // bytes that count as one call
)

// over runs after each call.
func (t *turns) over(c *backend.Call) {
	t.work += 1 + c.Count*c.DType.Size()/perCall
	if t.work >= look {
		t.look(time.Now())
	}
}

func (t *turns) look(now time.Time) {
	t.work = 0
	if now.Sub(t.began) >= turn {
		t.began = now
		runtime.Gosched()
	}
}
