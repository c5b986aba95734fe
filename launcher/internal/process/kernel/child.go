package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Step is what a child was doing when it failed.
type Step int32

// The steps of a child in their order. StepClone is before there is one.
const (
	StepClone Step = iota
	StepSession
	StepDeathSignal
	StepTerminal
	StepChdir
	StepDescriptors
	StepExec
)

// String names the step as messages do.
func (s Step) String() string {
	return [...]string{"clone", "setsid", "prctl", "set controlling terminal", "chdir", "dup", "exec"}[s]
}

// Way is how a child is made.
type Way int32

const (
	// Clone3 is clone3 with CLONE_CLEAR_SIGHAND, of Linux 5.5.
	Clone3 Way = iota
	// Clone is for older kernels and where a container's filter refuses clone3. The
	// child has our signal handlers and resets them by the runtime, which notes that
	// in a variable: the caller has to hold syscall.ForkLock. Mask is not looked at,
	// the child gets this thread's.
	Clone
	// CloneAlone is Clone without a pidfd, for emulators that have none.
	CloneAlone
)

// Refused reports that Start failed because c.Way is not supported here, and that there
// is another way to try.
func (c *Child) Refused() bool {
	if c.Failed != StepClone || c.Way == CloneAlone {
		return false
	}
	return c.Errno == syscall.EINVAL || c.Way == Clone3 && (c.Errno == syscall.ENOSYS || c.Errno == syscall.EPERM)
}

// cloneArgs is struct clone_args of clone3(2). Kernels before 5.7 know its first
// version only, and take the longer one if the rest is zero.
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	setTID, setTIDSize, cgroup                                           uint64
}

const vforkFlags = unix.CLONE_VM | unix.CLONE_VFORK

// Child is all that a child needs until it executes its program. Strings end with
// a zero byte and lists with nil. A Child may be started again with other values.
type Child struct {
	Path       *byte
	Dir        *byte // nil: ours
	Argv, Envp **byte
	FD         [3]int32     // become 0, 1, 2; each is that number already, or 3 or more
	Socket     int32        // becomes 3, -1: none; 3 or more
	Terminal   int32        // its controlling terminal, -1: none
	Launcher   int          // our pid
	OpenFiles  *unix.Rlimit // its RLIMIT_NOFILE, nil: ours
	Mask       uint64       // its signal mask
	Binding    Binding      // of its threads and memory
	Cgroup     int32        // the cgroup v2 that it is born into, -1: ours. Only Clone3 can do that

	Way Way
	// Patient gives up this thread's P until the program is executed, so that
	// other goroutines and the garbage collector go on even if exec hangs on a
	// dead file server. That costs a tenth of the time of a start.
	Patient bool

	// What Start found: a descriptor of the child, -1 where the kernel has none,
	// what came of its binding, and the step that failed with its error, or 0.
	PidFD  int32
	Bound  Bound
	Failed Step
	Errno  syscall.Errno

	args  cloneArgs
	flags uintptr // of clone
}

// Start starts a child that leads a session of its own, dies with this thread,
// has default signal actions where ours aren't "ignore", and executes its program.
// It returns when that has happened or failed. If a child came to be but failed
// its pid is returned all the same, and it has to be waited for.
func (c *Child) Start() (pid int) {
	c.PidFD, c.Bound, c.Failed, c.Errno = -1, Bound{}, StepClone, 0
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
	if c.Way == Clone {
		c.flags |= unix.CLONE_PIDFD
	}
	var r1, errno uintptr
	if c.Patient {
		r1, errno = c.forkAside()
	} else {
		r1, errno = c.fork()
	}
	if errno != 0 {
		c.Errno = syscall.Errno(errno)
	}
	return int(r1)
}

// forkAside is fork without a P. Nothing in it may need stack.
//
//go:norace
func (c *Child) forkAside() (pid, errno uintptr) {
	enterSyscallBlock()
	pid, errno = c.fork()
	exitSyscall()
	return pid, errno
}

// fork returns in the parent only. The child does everything in this frame and
// those it calls from here, and never leaves it: the frames above belong to the
// parent, which continues there.
//
//go:noinline
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) fork() (pid, errno uintptr) {
	beforeFork()
	if c.Way == Clone3 {
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

// become runs in the child and turns it into its program; it returns only if
// that failed. It and what it calls are small because their frames together must
// fit into what is left of any stack.
//
//go:norace
//go:nosplit
func (c *Child) become() (Step, syscall.Errno) {
	if c.Way != Clone3 {
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

// dieWithLauncher has the kernel kill this child when the thread that started it
// ends. A launcher that was gone before the kernel knew is told by its pid.
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

// moveDescriptors names them one by one: an index would bring a panic along, and
// the stack for it.
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
	return move(c.Socket, 3) // last: 3 may be one of the others
}

// move puts descriptor from in place as to. One that is there already only has
// to survive exec: dup3 refuses to copy it onto itself.
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

// restore gives back what is the user's and was changed for us.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (c *Child) restore() {
	if c.OpenFiles != nil {
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(c.OpenFiles)), 0, 0, 0)
	}
	if c.Way == Clone3 {
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
