//go:build cgo

package cpu

import (
	"runtime"
	"time"

	"gorun/comm/internal/backend"
)

// turns keeps Go's scheduler from taking calls for one goroutine that runs and runs. Where it has seen the same one for
// 10 ms (retake in Go's proc.go) it takes the right to run Go code away from the C call that it finds, and looks every
// 20 µs for a while after that. Each look is a thread that wakes up, which costs ranks that share CPUs more than their
// calls: a barrier of 4 ranks on 2 CPUs took 5.1 µs, and takes 3.2. A goroutine that offers its place more often than
// that is left alone; nobody wants it, as a rule.
type turns struct {
	work  int // calls and kilobytes since the clock was looked at
	began time.Time
}

const (
	turn    = 5 * time.Millisecond
	look    = 64      // calls
	perCall = 8 << 10 // bytes that count as one
)

// over is called after each call.
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
