// Package inherited saves what Go's start-up changes before main runs.
//
// An init function of package syscall raises the soft limit of open files and does not export the old value. Ranks
// must get the user's limit back: programs that use select(2), or close every descriptor up to the limit, suffer from
// a limit of a million.
//
// Packages are initialised in the order of their import paths once their imports are (Go 1.21 and later). This
// package imports nothing with an init function, and "gorun/…" sorts before "syscall"; hence the system call in
// assembly. A test of package process checks the order.
package inherited

import "unsafe"

// Limit is struct rlimit64.
type Limit struct{ Soft, Hard uint64 }

// NoFile is RLIMIT_NOFILE as inherited from the parent; zero if it could not be read.
var NoFile = openFiles()

func openFiles() (l Limit) {
	if readNoFile(unsafe.Pointer(&l)) != 0 {
		return Limit{}
	}
	return l
}

// readNoFile calls prlimit64(0, RLIMIT_NOFILE, NULL, limit) and returns 0 or a negative errno.
//
//go:noescape
func readNoFile(limit unsafe.Pointer) int
