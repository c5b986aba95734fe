// Package early has Go's scheduler begin with one thread at a time, before
// anything else is initialised.
//
// A job of a few ranks that is over at once is too short for a second thread to
// be of use: to wake it for each hand-over between goroutines takes a tenth of
// such a job's time. It comes first for the same reason as package inherited:
// packages are initialised in the order of their import paths as soon as their
// imports are, and this one imports nothing but the runtime. Later the runtime
// would already have memory in use for each thread, and give it up.
package early

import "runtime"

// threads is what GOMAXPROCS was.
var threads = runtime.GOMAXPROCS(1)

// Over gives the program all its threads.
func Over() { runtime.GOMAXPROCS(threads) }
