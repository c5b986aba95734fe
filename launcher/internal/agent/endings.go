package agent

import (
	"sync"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// endingDelay is the time to wait for more ends of streams and successful ranks: they tend to come together, and each
// frame wakes the head.
const endingDelay = 20 * time.Millisecond

// endings batches the ends of streams and ranks. It sends a failure, or the end of the last rank, at once with all that
// came before. It is safe for concurrent use.
type endings struct {
	job *job

	mu      sync.Mutex // guards all below
	pending wire.Ended
	exited  int         // ranks, without reaped ones
	timer   *time.Timer // of a delayed flush; nil: none
	held    bool
}

// hold keeps back all ends until release.
func (x *endings) hold() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = true
}

func (x *endings) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = false
	x.send()
}

func (x *endings) streamEnded(e wire.StreamEnd) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending.Streams = append(x.pending.Streams, e)
	x.delay()
}

func (x *endings) rankExited(e spec.Exit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending.Ranks = append(x.pending.Ranks, e)
	x.exited++
	if e.Code != 0 || e.Signal != 0 || x.exited >= len(x.job.rows()) {
		x.send()
	} else {
		x.delay()
	}
}

// removeRanks discounts reaped ranks.
func (x *endings) removeRanks(ranks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.exited -= ranks
}

// delay schedules a flush. mu is held.
func (x *endings) delay() {
	if x.timer == nil {
		x.timer = time.AfterFunc(endingDelay, x.flush)
	}
}

func (x *endings) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.send()
}

// send is flush with mu held.
func (x *endings) send() {
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if len(x.pending.Streams)+len(x.pending.Ranks) > 0 && !x.held {
		_ = x.job.agent.link.Send(&x.pending)
		x.pending = wire.Ended{}
	}
}
