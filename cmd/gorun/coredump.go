package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// preventCoreDump keeps the secrets of this process out of a core dump. Go writes one for
// GOTRACEBACK=crash alone, which is often meant for ranks. What starts as another program,
// as ranks do, can dump.
func preventCoreDump() {
	if os.Getenv("GOTRACEBACK") == "crash" {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it cannot fail
	}
}
