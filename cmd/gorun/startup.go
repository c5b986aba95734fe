package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/threads"
	"gorun/launcher/job"
)

// preventCoreDump keeps the secrets of this process out of a core dump. Go writes one only with GOTRACEBACK=crash,
// which is often meant for the ranks: these still dump core.
func preventCoreDump() {
	if os.Getenv("GOTRACEBACK") == "crash" {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // cannot fail
	}
}

// startSingleThreaded keeps package threads' limit for the time that a job needs that ends at once.
func startSingleThreaded() { time.AfterFunc(20*time.Millisecond, threads.Restore) }

// maxSingleThreaded is the largest number of ranks whose start does not profit from a second thread.
const maxSingleThreaded = 4

// useThreadsFor lifts package threads' limit at once for a job with more ranks, or with an unknown number.
func useThreadsFor(spec *job.Spec) {
	if ranks := spec.KnownRanks(); ranks < 1 || ranks > maxSingleThreaded {
		threads.Restore()
	}
}
