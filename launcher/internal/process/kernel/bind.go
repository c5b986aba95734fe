package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Binding is where a child runs and where it has its memory; the zero value leaves
// both as they are with us. Both are kept over execve and by all that the child
// starts. See sched_setaffinity(2) and set_mempolicy(2).
type Binding struct {
	CPUs []uint64 // mask of CPUs, nil: ours
	// Policy is MPOL_PREFERRED, MPOL_BIND, … for the NUMA nodes in the mask Nodes;
	// nil: ours.
	Policy int
	Nodes  []uint64
}

// The policies, of linux/mempolicy.h.
const (
	PolicyPreferred     = 1
	PolicyBind          = 2
	PolicyInterleave    = 3
	PolicyPreferredMany = 5 // Linux 5.15
)

// Bound says what came of a Binding: 0 or why the kernel refused. A child that
// could not be bound runs all the same: seccomp filters of containers forbid the
// second, and what a cpuset leaves may have changed.
type Bound struct{ CPUs, Nodes syscall.Errno }

// bind runs in the child.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) bind() {
	if n := len(c.Binding.CPUs); n > 0 {
		_, _, c.Bound.CPUs = syscall.RawSyscall6(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(n)*8,
			uintptr(unsafe.Pointer(unsafe.SliceData(c.Binding.CPUs))), 0, 0, 0)
	}
	if n := len(c.Binding.Nodes); n > 0 {
		c.Bound.Nodes = c.remember(c.Binding.Policy)
		if c.Bound.Nodes == syscall.EINVAL && c.Binding.Policy == PolicyPreferredMany {
			c.Bound.Nodes = c.remember(PolicyPreferred) // which takes the first of them
		}
	}
}

// remember sets the memory policy. The kernel looks at one bit less than it is told.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) remember(policy int) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_SET_MEMPOLICY, uintptr(policy),
		uintptr(unsafe.Pointer(unsafe.SliceData(c.Binding.Nodes))), uintptr(len(c.Binding.Nodes))*64+1, 0, 0, 0)
	return e
}
