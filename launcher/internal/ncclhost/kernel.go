package ncclhost

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// disk is this host's file system, whose files cost no more than one that is opened.
type disk struct{}

func (disk) Open(name string) (fs.File, error)          { return os.Open("/" + name) }
func (disk) Stat(name string) (fs.FileInfo, error)      { return os.Stat("/" + name) }
func (disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir("/" + name) }
func (disk) ReadFile(name string) ([]byte, error)       { return os.ReadFile("/" + name) }
func (disk) ReadLink(name string) (string, error)       { return os.Readlink("/" + name) }
func (disk) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat("/" + name) }

// ofKernel is this host's kernel.
type ofKernel struct{}

// MemoryPolicy asks by get_mempolicy(2), which changes nothing: the profiles of
// containers forbid both calls together (without CAP_SYS_NICE), or neither.
func (ofKernel) MemoryPolicy() error {
	if _, _, e := unix.Syscall6(unix.SYS_GET_MEMPOLICY, 0, 0, 0, 0, 0, 0); e != 0 && e != unix.ENOSYS {
		return e
	}
	return nil
}

func (ofKernel) Shm() int64 {
	var s unix.Statfs_t
	if unix.Statfs("/dev/shm", &s) != nil {
		return -1
	}
	return int64(s.Blocks) * s.Bsize
}

// Memlock is no limit for who has the capability to lock memory, as root has outside of
// containers.
func (ofKernel) Memlock() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur > 1<<62 || mayLock() {
		return -1
	}
	return int64(l.Cur)
}

func mayLock() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // the kernel writes both halves
	return unix.Capget(&header, &sets[0]) == nil && locks(sets[0].Effective)
}

// locks reports whether CAP_IPC_LOCK is in the first half of a set.
func locks(effective uint32) bool { return effective&(1<<unix.CAP_IPC_LOCK) != 0 }

func (ofKernel) EndlessStack() bool {
	var l unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_STACK, &l) == nil && l.Cur == unix.RLIM_INFINITY
}

// OpenVerbs opens the file and closes it: a device's file says by that who may use it.
func (ofKernel) OpenVerbs(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
