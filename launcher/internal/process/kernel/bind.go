package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Binding is a child's CPU affinity and memory policy; descendants inherit both. The zero value inherits ours. See
// sched_setaffinity(2) and set_mempolicy(2).
type Binding struct {
	CPUs []uint64 // mask of CPUs; nil: inherit
	// Policy is the memory policy for the NUMA nodes in the mask Nodes; no Nodes: inherit.
	Policy int
	Nodes  []uint64
}

// Memory policies, from linux/mempolicy.h.
const (
	PolicyPreferred     = 1
	PolicyBind          = 2
	PolicyInterleave    = 3
	PolicyPreferredMany = 5 // Linux 5.15
)

// BindError has the error of each part of a Binding, 0 for success. A child that could not be bound runs
// nevertheless: containers' seccomp filters forbid set_mempolicy, and a cpuset may have changed.
type BindError struct{ CPUs, Nodes syscall.Errno }

// bind runs in the child.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) bind() {
	if n := len(c.Binding.CPUs); n > 0 {
		_, _, c.BindErr.CPUs = syscall.RawSyscall6(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(n)*8,
			uintptr(unsafe.Pointer(unsafe.SliceData(c.Binding.CPUs))), 0, 0, 0)
	}
	if n := len(c.Binding.Nodes); n > 0 {
		c.BindErr.Nodes = c.setMemoryPolicy(c.Binding.Policy)
		if c.BindErr.Nodes == syscall.EINVAL && c.Binding.Policy == PolicyPreferredMany {
			c.BindErr.Nodes = c.setMemoryPolicy(PolicyPreferred) // uses the first node of the mask
		}
	}
}

// setMemoryPolicy passes one bit more than the mask has: the kernel reads maxnode-1 bits.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) setMemoryPolicy(policy int) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_SET_MEMPOLICY, uintptr(policy),
		uintptr(unsafe.Pointer(unsafe.SliceData(c.Binding.Nodes))), uintptr(len(c.Binding.Nodes))*64+1, 0, 0, 0)
	return e
}
