package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a place where groups are usually mounted. /proc/self/mountinfo
// would tell all of them, and is long on hosts with containers.
type hierarchy struct {
	mount string
	magic int64 // of its file system
	v1    bool
}

// hierarchies are tried in turn.
var hierarchies = []hierarchy{
	{mount: "/sys/fs/cgroup", magic: unix.CGROUP2_SUPER_MAGIC},
	{mount: "/sys/fs/cgroup/unified", magic: unix.CGROUP2_SUPER_MAGIC},
	{mount: "/sys/fs/cgroup/freezer", magic: unix.CGROUP_SUPER_MAGIC, v1: true},
}

// parent returns the directory of the group that this process is in, by the lines
// of /proc/self/cgroup.
func (h hierarchy) parent(lines string) (string, bool) {
	own, ok := ownGroup(lines, h.v1)
	if !ok {
		return "", false
	}
	var fs unix.Statfs_t
	if unix.Statfs(h.mount, &fs) != nil || int64(fs.Type) != h.magic {
		return "", false
	}
	return filepath.Join(h.mount, own), true
}

// ownGroup picks the path of v2, or of v1's freezer.
func ownGroup(lines string, v1 bool) (path string, ok bool) {
	for _, m := range Memberships(lines) {
		if strings.Contains(m.Path, "..") { // outside of our cgroup namespace
			continue
		}
		if v1 && m.Has("freezer") || !v1 && m.Controllers == "" {
			return m.Path, true
		}
	}
	return "", false
}

// make makes a group whose parent exists.
func (h hierarchy) make(dir string) (*Group, error) {
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	g := &Group{dir: dir, v1: h.v1, fd: -1}
	var err error
	if g.fd, err = h.open(dir); err != nil {
		_ = unix.Rmdir(dir)
		return nil, err
	}
	return g, nil
}

// open opens what a rank is born by, above the standard descriptors.
func (h hierarchy) open(dir string) (int, error) {
	file, mode := dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC
	if h.v1 {
		file, mode = filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC
	} else if err := unix.Access(filepath.Join(dir, freezeV2), unix.F_OK); err != nil {
		return -1, err // a kernel so old has no way to be born here either: v1 may do
	}
	fd, err := unix.Open(file, mode, 0)
	if err != nil || fd > 2 {
		return fd, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// abandoned is the age from which on an empty group is nobody's: a job that is
// about to start its ranks has made its own just now.
const abandoned = time.Minute

// Tidy removes empty groups beside g that launchers left which were killed in the
// millisecond before somebody could do it for them.
func (g *Group) Tidy() {
	siblings, _ := os.ReadDir(filepath.Dir(g.dir))
	for _, s := range siblings {
		if !strings.HasPrefix(s.Name(), Prefix) || s.Name() == g.Name() {
			continue
		}
		if info, err := s.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = unix.Rmdir(filepath.Join(filepath.Dir(g.dir), s.Name())) // unless it has processes, or groups below
		}
	}
}
