package ncclhost

import "golang.org/x/sys/unix"

// localKernel is this host's kernel.
type localKernel struct{}

// MemoryPolicy calls get_mempolicy(2), which has no side effects: container profiles forbid it together with
// set_mempolicy(2).
func (localKernel) MemoryPolicy() error {
	if _, _, e := unix.Syscall6(unix.SYS_GET_MEMPOLICY, 0, 0, 0, 0, 0, 0); e != 0 && e != unix.ENOSYS {
		return e
	}
	return nil
}

func (localKernel) Shm() int64 {
	var s unix.Statfs_t
	if unix.Statfs("/dev/shm", &s) != nil {
		return -1
	}
	return int64(s.Blocks) * s.Bsize
}

// Memlock does not apply with CAP_IPC_LOCK, which root has outside of containers.
func (localKernel) Memlock() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur > 1<<62 || mayLock() {
		return -1
	}
	return int64(l.Cur)
}

func mayLock() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // version 3 has two
	return unix.Capget(&header, &sets[0]) == nil && canLock(sets[0].Effective)
}

// canLock reports whether CAP_IPC_LOCK is in the first half of a capability set.
func canLock(effective uint32) bool { return effective&(1<<unix.CAP_IPC_LOCK) != 0 }

func (localKernel) EndlessStack() bool {
	var l unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_STACK, &l) == nil && l.Cur == unix.RLIM_INFINITY
}

// OpenVerbs opens and closes the file, which checks permissions and the cgroup's device controller.
func (localKernel) OpenVerbs(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
