package process

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopts reports whether every unknown child of this process will be an orphan of the job: the process is a subreaper
// (PR_SET_CHILD_SUBREAPER, set by the main program, never by a library) or the init process of a container, and has no
// children yet.
//
// A main program calls it once, before it starts anything. Children inherited through exec, as in `sleep 100 & exec
// gorun …`, make the answer false for good: their orphans could not be distinguished from the job's.
func Adopts() bool { return (os.Getpid() == 1 || isSubreaper()) && !HasChildren() }

func isSubreaper() bool {
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return err == nil && set != 0
}

// Claim makes this process one that exists for a job alone: children inherit no descriptors that it did not open
// itself, and it becomes a subreaper. adopts is what Adopts says then.
func Claim() (adopts bool, err error) {
	if err := SealInherited(); err != nil {
		return false, err
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil && Adopts(), nil
}
