package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Step is a step on a child's way to its program, in order.
type Step int32

const (
	StepClone Step = iota // no child exists yet
	StepSession
	StepDeathSignal
	StepTerminal
	StepChdir
	StepDescriptors
	StepExec
)

// String returns the name of the system call behind the step, for error messages.
func (s Step) String() string {
	return [...]string{"clone", "setsid", "prctl", "set controlling terminal", "chdir", "dup", "exec"}[s]
}

// Variant selects the system call that creates a child.
type Variant int32

const (
	// Clone3 is clone3(2) with CLONE_PIDFD and CLONE_CLEAR_SIGHAND (Linux 5.5).
	Clone3 Variant = iota
	// ClonePidfd is clone(2) with CLONE_PIDFD, for older kernels and for containers whose seccomp filter
	// refuses clone3. The child inherits our signal handlers and resets them through the Go runtime, which
	// records that in a global variable: the caller must hold syscall.ForkLock. Mask is ignored; the child
	// gets the calling thread's. Kernels before 5.2 ignore the flag, and PidFD stays -1.
	ClonePidfd
	// ClonePlain is clone(2) without CLONE_PIDFD, for emulators that reject the flag.
	ClonePlain
)

// Unsupported reports that Start failed because the kernel does not have c.Variant, and the next one is worth a try.
func (c *Child) Unsupported() bool {
	if c.Failed != StepClone || c.Variant == ClonePlain {
		return false
	}
	return c.Errno == syscall.EINVAL || c.Variant == Clone3 && (c.Errno == syscall.ENOSYS || c.Errno == syscall.EPERM)
}

// cloneArgs is struct clone_args of clone3(2). Kernels before 5.7 know only its first version; they accept a
// longer one whose tail is zero.
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	setTID, setTIDSize, cgroup                                           uint64
}

const vforkFlags = unix.CLONE_VM | unix.CLONE_VFORK

// Child describes a child process up to execve. Strings are NUL-terminated, lists end with nil. A Child may be
// reused: change its fields and call Start again.
type Child struct {
	Path       *byte
	Dir        *byte // nil: inherit
	Argv, Envp **byte
	FD         [3]int32     // become 0, 1 and 2; each has its final number already, or is 3 or higher
	Socket     int32        // becomes 3; -1: none, else 3 or higher
	Terminal   int32        // controlling terminal; -1: none
	Launcher   int          // our pid
	OpenFiles  *unix.Rlimit // RLIMIT_NOFILE; nil: inherit
	Mask       uint64       // signal mask
	Binding    Binding
	Cgroup     int32 // directory of the cgroup v2 to spawn in, -1: inherit; needs Clone3
	Variant    Variant

	// Results of Start: the child's pidfd (-1 if the kernel has none), which bindings failed, and the step that
	// failed with its error (0: none failed).
	PidFD   int32
	BindErr BindError
	Failed  Step
	Errno   syscall.Errno

	args  cloneArgs
	flags uintptr // of clone
}

// Start creates a child that leads a new session, is killed when the calling thread ends, resets every signal
// that is not ignored to its default action, and executes its program. It returns once execve has succeeded or a
// step has failed. If a step failed after the child existed, Start returns its pid; the caller must wait for it.
func (c *Child) Start() (pid int) {
	c.PidFD, c.BindErr, c.Failed, c.Errno = -1, BindError{}, StepClone, 0
	c.args = cloneArgs{
		flags:      vforkFlags | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidFD:      uint64(uintptr(unsafe.Pointer(&c.PidFD))),
		exitSignal: uint64(syscall.SIGCHLD),
	}
	if c.Cgroup >= 0 {
		c.args.flags |= unix.CLONE_INTO_CGROUP
		c.args.cgroup = uint64(c.Cgroup)
	}
	c.flags = vforkFlags | uintptr(syscall.SIGCHLD)
	if c.Variant == ClonePidfd {
		c.flags |= unix.CLONE_PIDFD
	}
	child, errno := c.forkWithoutP()
	if errno != 0 {
		c.Errno = syscall.Errno(errno)
	}
	return int(child)
}

// forkWithoutP gives up this thread's P until the child has executed its program: other goroutines and the
// garbage collector run on, even if execve hangs on a dead file server. Nothing in it may grow the stack.
//
//go:norace
func (c *Child) forkWithoutP() (pid, errno uintptr) {
	enterSyscallBlock()
	pid, errno = c.fork()
	exitSyscall()
	return pid, errno
}

// fork returns in the parent only. The child runs in this frame and those below, and never returns from it: the
// frames above belong to the parent.
//
//go:noinline
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) fork() (pid, errno uintptr) {
	beforeFork()
	if c.Variant == Clone3 {
		pid, errno = rawVfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c.args)), unsafe.Sizeof(c.args), 0)
	} else {
		pid, errno = rawVfork(unix.SYS_CLONE, c.flags, 0, uintptr(unsafe.Pointer(&c.PidFD)))
	}
	if errno != 0 || pid != 0 {
		afterFork()
		return
	}
	c.Failed, c.Errno = c.become()
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 253, 0, 0, 0, 0, 0)
	}
}

// become runs in the child and returns only if a step failed. Its frame and those below must fit into the
// unused part of any stack.
//
//go:norace
//go:nosplit
func (c *Child) become() (Step, syscall.Errno) {
	if c.Variant != Clone3 {
		afterForkInChild()
	}
	if e := c.leadSession(); e != 0 {
		return StepSession, e
	}
	if e := c.dieWithLauncher(); e != 0 {
		return StepDeathSignal, e
	}
	if e := c.takeTerminal(); e != 0 {
		return StepTerminal, e
	}
	if e := c.chdir(); e != 0 {
		return StepChdir, e
	}
	if e := c.moveDescriptors(); e != 0 {
		return StepDescriptors, e
	}
	c.restore()
	c.bind()
	return StepExec, c.exec()
}

//go:norace
//go:nosplit
func (c *Child) leadSession() syscall.Errno {
	_, _, e := syscall.RawSyscall6(syscall.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	return e
}

// dieWithLauncher asks for SIGKILL when the thread that started this child ends. Comparing the parent's pid
// detects a launcher that died before the prctl.
//
//go:norace
//go:nosplit
func (c *Child) dieWithLauncher() syscall.Errno {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if parent, _, _ := syscall.RawSyscall6(syscall.SYS_GETPPID, 0, 0, 0, 0, 0, 0); int(parent) != c.Launcher {
		return syscall.ESRCH
	}
	return 0
}

//go:norace
//go:nosplit
func (c *Child) takeTerminal() (e syscall.Errno) {
	if c.Terminal >= 0 {
		_, _, e = syscall.RawSyscall6(syscall.SYS_IOCTL, uintptr(c.Terminal), unix.TIOCSCTTY, 0, 0, 0, 0)
	}
	return e
}

//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) chdir() (e syscall.Errno) {
	if c.Dir != nil {
		_, _, e = syscall.RawSyscall6(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.Dir)), 0, 0, 0, 0, 0)
	}
	return e
}

// moveDescriptors avoids a loop: a bounds check could panic, and a panic needs stack.
//
//go:norace
//go:nosplit
func (c *Child) moveDescriptors() syscall.Errno {
	if e := move(c.FD[0], 0); e != 0 {
		return e
	}
	if e := move(c.FD[1], 1); e != 0 {
		return e
	}
	if e := move(c.FD[2], 2); e != 0 || c.Socket < 0 {
		return e
	}
	return move(c.Socket, 3) // last: 3 may be the source of another stream
}

// move makes from available as to. If they are equal it only clears close-on-exec, as dup3 would return EINVAL.
//
//go:norace
//go:nosplit
func move(from int32, to uintptr) (e syscall.Errno) {
	if uintptr(from) == to {
		_, _, e = syscall.RawSyscall6(syscall.SYS_FCNTL, to, syscall.F_SETFD, 0, 0, 0, 0)
	} else {
		_, _, e = syscall.RawSyscall6(syscall.SYS_DUP3, uintptr(from), to, 0, 0, 0, 0)
	}
	return e
}

// restore undoes what the Go runtime changed: the limit of open files and the signal mask.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) restore() {
	if c.OpenFiles != nil {
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(c.OpenFiles)), 0, 0, 0)
	}
	if c.Variant == Clone3 {
		syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.Mask)), 0, 8, 0, 0)
	}
}

//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) exec() syscall.Errno {
	_, _, e := syscall.RawSyscall6(syscall.SYS_EXECVE,
		uintptr(unsafe.Pointer(c.Path)), uintptr(unsafe.Pointer(c.Argv)), uintptr(unsafe.Pointer(c.Envp)), 0, 0, 0)
	return e
}
