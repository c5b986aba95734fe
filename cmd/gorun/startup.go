package main

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/early"
	"gorun/launcher/job"
)

// preventCoreDump keeps the secrets of this process out of a core dump. Go writes one for
// GOTRACEBACK=crash alone, which is often meant for ranks. What starts as another program,
// as ranks do, can dump.
func preventCoreDump() {
	if os.Getenv("GOTRACEBACK") == "crash" {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it cannot fail
	}
}

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
