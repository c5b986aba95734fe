// Package inherited keeps what this process got from its parent and what Go's
// start-up changes before main runs.
//
// Package syscall raises the soft limit of open files in an init function of
// its own and keeps the old value to itself. Programs that still use select(2),
// and those that close every descriptor up to the limit, mind a limit of a
// million, so ranks must get the user's own one back.
//
// It works because packages are initialised in the order of their import paths
// as soon as their imports are (Go 1.21 and later): this one imports nothing
// with an init function, and "gorun/…" sorts before "syscall". Hence the system
// call in assembly. A test of package process holds the order.
package inherited

import "unsafe"

// Limit is a struct rlimit64: the soft and the hard limit.
type Limit struct{ Soft, Hard uint64 }

// NoFile is RLIMIT_NOFILE as the parent set it; its zero value means that it
// could not be read.
var NoFile = openFiles()

func openFiles() (l Limit) {
	if readNoFile(unsafe.Pointer(&l)) != 0 {
		return Limit{}
	}
	return l
}

// readNoFile is prlimit64(0, RLIMIT_NOFILE, NULL, limit); it returns 0 or a
// negative errno.
//
//go:noescape
func readNoFile(limit unsafe.Pointer) int
