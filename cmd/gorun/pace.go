package main

import (
	"runtime"
	"time"

	"gorun/cmd/gorun/internal/early"
	"gorun/launcher/job"
)

// reserveStack has the main goroutine's stack grow once, while there is little on
// it to copy, and not three times on the way down, which takes a tenth of the
// time of a job that is over at once.
//
//go:noinline
func reserveStack() {
	var room [24 << 10]byte
	runtime.KeepAlive(&room)
}

// instant is the time after which gorun does more than a job that is over at once.
const instant = 5 * time.Millisecond

// startSlowly leaves gorun with one thread at a time for a moment; see package early.
func startSlowly() { time.AfterFunc(instant, early.Over) }

// few is a number of ranks whose start gains nothing by a second thread.
const few = 4

// hurry ends the slow start for a job with more ranks, or with nobody knows how
// many yet.
func hurry(spec *job.Spec) {
	if ranks := spec.KnownRanks(); ranks < 1 || ranks > few {
		early.Over()
	}
}
