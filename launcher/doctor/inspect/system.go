package inspect

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/doctor"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/process/inherited"
	"gorun/placement"
	"gorun/placement/sysfs"
)

// Local returns the system that this process runs on.
func Local() System { return system{} }

type system struct{}

func (system) CPUs() placement.CPUSet {
	set, err := sysfs.Affinity()
	if err != nil {
		return placement.CPUSet{}
	}
	return set
}

func (system) UID() (int, string) {
	id := os.Geteuid()
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return id, u.Username
	}
	return id, ""
}

func (system) Uname() (release, machine string) {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "", ""
	}
	return unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:])
}

func (system) Limits() map[string]doctor.Limit {
	limits := map[string]doctor.Limit{}
	for name, resource := range map[string]int{
		"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE,
		"nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
	} {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) != nil {
			continue
		}
		if was := inherited.NoFile; resource == unix.RLIMIT_NOFILE && was.Hard != 0 {
			now = unix.Rlimit{Cur: was.Soft, Max: was.Hard} // before Go raised it
		}
		if resource == unix.RLIMIT_MEMLOCK && mayLock() {
			now = unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		}
		limits[name] = doctor.Limit{Soft: limit(now.Cur), Hard: limit(now.Max)}
	}
	return limits
}

// mayLock reports whether RLIMIT_MEMLOCK does not apply: with CAP_IPC_LOCK, which root has outside of containers.
func mayLock() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // version 3 has two
	return unix.Capget(&header, &sets[0]) == nil && canLock(sets[0].Effective)
}

// canLock reports whether CAP_IPC_LOCK is in the first half of a capability set.
func canLock(effective uint32) bool { return effective&(1<<unix.CAP_IPC_LOCK) != 0 }

// limit converts a limit, unlimited to -1.
func limit(n uint64) int64 {
	if n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}

func (system) FileSystem(path string) doctor.FileSystem {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return doctor.FileSystem{Error: err.Error()}
	}
	types := map[int64]string{
		unix.TMPFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
		unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs",
		unix.RAMFS_MAGIC: "ramfs",
	}
	f := doctor.FileSystem{
		Type: types[int64(s.Type)], Total: int64(s.Blocks) * s.Bsize,
		Free: int64(s.Bavail) * s.Bsize,
	}
	if f.Type == "ramfs" { // without a size
		return doctor.FileSystem{Type: "tmpfs", Total: math.MaxInt64, Free: math.MaxInt64}
	}
	if f.Total == 0 && f.Type == "tmpfs" { // mounted with size=0: unlimited
		f.Total, f.Free = math.MaxInt64, math.MaxInt64
	}
	if why := (system{}).Access(path); why != "" {
		f.Error = why
	}
	return f
}

func (system) Hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

func (system) Lookup(ctx context.Context, name string) ([]string, error) {
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	return addresses, withoutName(err)
}

func (system) Reverse(ctx context.Context, address string) ([]string, error) {
	names, err := net.DefaultResolver.LookupAddr(ctx, address)
	return names, withoutName(err)
}

// withoutName removes the queried name from the resolver's error.
func withoutName(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return errors.New(dns.Err)
	}
	return err
}

func (system) Addresses() map[string][]string {
	all := map[string][]string{}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs() // none if it is gone
		for _, a := range addresses {
			all[i.Name] = append(all[i.Name], a.String())
		}
	}
	return all
}

// Access does not open the file, which would wake a GPU's driver. The kernel also consults the cgroup's device
// controller.
func (system) Access(path string) string {
	err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	if err != nil {
		return err.Error()
	}
	return ""
}

// Denied sets a nonexistent memory policy, which the kernel refuses with EINVAL if allowed, and reads a byte of this
// process's own memory.
func (system) Denied() map[string]string {
	denied := map[string]string{}
	const noPolicy = 1 << 12
	if _, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, noPolicy, 0, 0); errno != 0 && errno != unix.EINVAL &&
		errno != unix.ENOSYS {
		denied["set_mempolicy"] = errno.Error()
	}
	from, to := byte(1), byte(0)
	local := []unix.Iovec{{Base: &to, Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from)), Len: 1}}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
		denied["process_vm_readv"] = err.Error()
	}
	runtime.KeepAlive(&from)
	return denied
}

// KernelLog reads without blocking. On most systems only root may.
func (system) KernelLog() []byte {
	const most = 4 << 20
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var all []byte
	record := make([]byte, 8<<10)
	for len(all) < most {
		n, err := unix.Read(fd, record)
		if err == unix.EPIPE || err == unix.EINTR { // records were overwritten
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		all = append(all, record[:n]...)
	}
	return all
}

func (system) Python(ctx context.Context, path, code string) ([]byte, error) {
	out := &limitedBuffer{limit: 64 << 10}
	cmd := child.CommandContext(ctx, path, "-c", code)
	cmd.Stdout, cmd.WaitDelay = out, time.Second
	err := cmd.Run()
	return out.text, err
}

// limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct {
	text  []byte
	limit int
}

// Write implements io.Writer and discards what exceeds the limit.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), b.limit-len(b.text))]...)
	return len(p), nil
}
