// Package threads starts the program with GOMAXPROCS 1, before anything else is initialised.
//
// A job of a few ranks that ends at once is too short to profit from a second thread: waking it for each hand-over
// between goroutines takes a tenth of such a job's time. This package must be initialised first, since later the
// runtime would have to release the memory it has prepared for each thread. Go initialises packages by import path as
// soon as their imports are, so this one imports nothing but the runtime.
package threads

import "runtime"

var maxProcs = runtime.GOMAXPROCS(1)

// Restore sets GOMAXPROCS to what it was.
func Restore() { runtime.GOMAXPROCS(maxProcs) }
