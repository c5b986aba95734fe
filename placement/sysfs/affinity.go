package sysfs

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/placement"
)

// Affinity returns the CPUs that the calling thread may run on. They reflect taskset, cpusets and the
// binding of a batch system. It reads no file.
func Affinity() (placement.CPUSet, error) {
	// The kernel rejects a mask smaller than its own, and does not report the required size.
	for words := 16; words <= 1<<12; words *= 2 {
		mask := make([]uint64, words)
		n, err := getAffinity(mask)
		if err == nil {
			return placement.CPUSetOf(mask[:n/8]), nil
		}
		if err != unix.EINVAL {
			return placement.CPUSet{}, fmt.Errorf("read the allowed CPUs: sched_getaffinity: %w", err)
		}
	}
	return placement.CPUSet{}, fmt.Errorf("read the allowed CPUs: sched_getaffinity: %w", unix.EINVAL)
}

// getAffinity fills a mask for the calling thread and returns the number of bytes used.
// (unix.SchedGetaffinity is limited to 1024 CPUs.)
func getAffinity(mask []uint64) (bytes int, err error) {
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, uintptr(len(mask)*8), uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
