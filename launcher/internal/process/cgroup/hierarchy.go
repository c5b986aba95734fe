package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a usual mount point of cgroups. /proc/self/mountinfo has all, but is long on hosts with containers.
type hierarchy struct {
	mount string
	magic int64 // of its file system
	v1    bool
}

// hierarchies are tried in order.
var hierarchies = []hierarchy{
	{mount: "/sys/fs/cgroup", magic: unix.CGROUP2_SUPER_MAGIC},
	{mount: "/sys/fs/cgroup/unified", magic: unix.CGROUP2_SUPER_MAGIC},
	{mount: "/sys/fs/cgroup/freezer", magic: unix.CGROUP_SUPER_MAGIC, v1: true},
}

// parent returns the directory of this process's group. lines is /proc/self/cgroup.
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

// ownGroup returns the path of this process's group in v2, or in v1's freezer.
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

// open opens Group.fd above the standard descriptors.
func (h hierarchy) open(dir string) (int, error) {
	file, mode := dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC
	if h.v1 {
		file, mode = filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC
	} else if err := unix.Access(filepath.Join(dir, freezeV2), unix.F_OK); err != nil {
		return -1, err // the kernel is too old for CLONE_INTO_CGROUP as well; try v1
	}
	fd, err := unix.Open(file, mode, 0)
	if err != nil || fd > 2 {
		return fd, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// abandoned is the minimum age of an empty group that Tidy removes. A younger one may belong to a job that is about to
// start its ranks.
const abandoned = time.Minute

// Tidy removes empty sibling groups of launchers that were killed before their guard knew the group.
func (g *Group) Tidy() {
	siblings, _ := os.ReadDir(filepath.Dir(g.dir))
	for _, s := range siblings {
		if !strings.HasPrefix(s.Name(), Prefix) || s.Name() == g.Name() {
			continue
		}
		if info, err := s.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = unix.Rmdir(filepath.Join(filepath.Dir(g.dir), s.Name())) // fails if it has processes or descendants
		}
	}
}
