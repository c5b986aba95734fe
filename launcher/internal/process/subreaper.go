package process

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopts reports whether every child that this process did not start itself is
// an orphan of what it did start: it is a subreaper (PR_SET_CHILD_SUBREAPER, set
// by the program that it is and never by a library) or the init process of a
// container, and has no children yet.
//
// A main program asks once, before it starts anything. With children inherited
// through exec, as in `sleep 100 & exec gorun …`, the answer is false for good:
// their orphans would come to us as well and could not be told from the job's.
func Adopts() bool { return (os.Getpid() == 1 || isSubreaper()) && !HasChildren() }

func isSubreaper() bool {
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return err == nil && set != 0
}
