// Package threads starts the program with GOMAXPROCS 1, before anything else is initialised.
//
// A job of a few ranks that ends at once is too short to profit from a second thread: waking it for each hand-over
// between goroutines takes a tenth of such a job's time. This package must be initialised first, since later the
// runtime would have to release the memory it has prepared for each thread. Go initialises packages by import path as
// soon as their imports are, so this one imports nothing but the runtime.
//
// It also grows the main goroutine's stack once, while it is almost empty, instead of five times later.
package threads

import "runtime"

var maxProcs = start()

func start() int {
	ReserveStack()
	return runtime.GOMAXPROCS(1)
}

var never bool

// ReserveStack grows the stack of a goroutine to 32 KiB, without touching it.
//
//go:noinline
func ReserveStack() {
	if never {
		var room [24 << 10]byte
		runtime.KeepAlive(&room)
	}
}

// Restore sets GOMAXPROCS to what it was.
func Restore() { runtime.GOMAXPROCS(maxProcs) }
