package sysfs

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/placement"
)

// Affinity returns the CPUs that the kernel lets the calling thread run on. They
// respect taskset, cpusets and a batch system's binding; no file is needed.
func Affinity() (placement.CPUSet, error) {
	// The kernel refuses a mask that is smaller than its own, whose size it tells
	// nowhere.
	for words := 16; words <= 1<<12; words *= 2 {
		mask := make([]uint64, words)
		n, err := getAffinity(mask)
		if err == nil {
			return placement.CPUSetOf(mask[:n/8]), nil
		}
		if err != unix.EINVAL {
			return placement.CPUSet{}, fmt.Errorf("the allowed CPUs are not known: sched_getaffinity: %w", err)
		}
	}
	return placement.CPUSet{}, fmt.Errorf("the allowed CPUs are not known: sched_getaffinity: %w", unix.EINVAL)
}

// getAffinity fills a mask for the calling thread and returns the bytes used.
// (unix.SchedGetaffinity ends at 1024 CPUs.)
func getAffinity(mask []uint64) (bytes int, err error) {
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, uintptr(len(mask)*8), uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
