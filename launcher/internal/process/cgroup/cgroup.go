// Package cgroup puts the processes of one job into their own control group, if the launcher may create one.
// Descendants of a rank stay in the group whatever they do to their session, parent and environment.
//
// With cgroup v2 ranks are spawned in the group with CLONE_INTO_CGROUP (Linux 5.7). With v1 the group is in the freezer
// hierarchy, where single threads can be in different groups: a thread enters the group to start ranks there. See
// cgroups(7), and the kernel's admin-guide/cgroup-v2 and cgroup-v1/freezer.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Prefix is the prefix of the names of all groups made by launchers.
const Prefix = "gorun-"

// ErrNone is returned if no group can be made: there is no hierarchy, or it is not writable.
var ErrNone = errors.New("no writable cgroup")

// ErrBusy is returned for a group that still has processes.
var ErrBusy = errors.New("the cgroup has processes")

// Group is the control group of one job on this host.
type Group struct {
	dir string
	v1  bool
	fd  int // v2: the directory; v1: the file tasks; -1: from Open

	removed bool
}

// Make makes the group Prefix+name below this process's group. Its error is ErrNone.
func Make(name string) (*Group, error) {
	lines, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, ErrNone
	}
	for _, h := range hierarchies {
		parent, ok := h.parent(string(lines))
		if !ok {
			continue
		}
		if g, err := h.make(filepath.Join(parent, Prefix+name)); err == nil {
			return g, nil
		}
	}
	return nil, ErrNone
}

// Open returns an existing group, to kill and remove it.
func Open(dir string) *Group {
	_, err := os.Lstat(filepath.Join(dir, stateV1))
	return &Group{dir: dir, v1: err == nil, fd: -1}
}

// Dir returns the group's directory.
func (g *Group) Dir() string { return g.dir }

// Name returns the group's name, the last element of its path in /proc/PID/cgroup.
func (g *Group) Name() string { return filepath.Base(g.dir) }

// CloneFD returns the descriptor for CLONE_INTO_CGROUP; -1 for v1, see Enter.
func (g *Group) CloneFD() int {
	if g.v1 {
		return -1
	}
	return g.fd
}

// Enter moves the calling thread into the group until Leave, so that children start there. The thread must be locked to
// its goroutine. With v2 both do nothing.
func (g *Group) Enter() error {
	if !g.v1 {
		return nil
	}
	if _, err := unix.Write(g.fd, []byte("0")); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", g.dir, err)
	}
	return nil
}

// Leave moves the calling thread back.
func (g *Group) Leave() {
	if g.v1 {
		_ = os.WriteFile(filepath.Join(filepath.Dir(g.dir), "tasks"), []byte("0"), 0)
	}
}

// Procs lists the processes in the group and its descendants, except for this process, which may have a thread there.
func (g *Group) Procs() (pids []int) {
	for _, dir := range g.dirs() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // removed
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 && pid != os.Getpid() { // 0: in another PID namespace
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// dirs lists the directories of the group and its descendants, parents first.
func (g *Group) dirs() (dirs []string) {
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // removed
		}
		if d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// Remove removes the group and its descendants. Its error is ErrBusy if one of them has processes; zombies do not
// count.
func (g *Group) Remove() error {
	if g.removed {
		return nil
	}
	last := unix.Rmdir(g.dir)
	if last == unix.EBUSY {
		if len(g.Procs()) > 0 {
			return ErrBusy
		}
		for _, dir := range slices.Backward(g.dirs()) {
			last = unix.Rmdir(dir)
		}
	}
	if g.removed = last == nil || last == unix.ENOENT; g.removed {
		return nil
	}
	return fmt.Errorf("remove cgroup: %w", &os.PathError{Op: "rmdir", Path: g.dir, Err: last})
}

// Close closes the descriptor. The group stays.
func (g *Group) Close() {
	if g.fd >= 0 {
		_ = unix.Close(g.fd)
		g.fd = -1
	}
}

// Control files.
const (
	killV2   = "cgroup.kill"   // Linux 5.14
	freezeV2 = "cgroup.freeze" // Linux 5.2
	stateV1  = "freezer.state"
)

// Kill kills every process of the group, fork bombs included, and reports whether none is left after limit.
func (g *Group) Kill(limit time.Duration) bool {
	pause := 100 * time.Microsecond
	for end := time.Now().Add(limit); ; {
		if len(g.Procs()) == 0 {
			return true
		}
		if g.write(killV2, "1") != nil {
			g.freezeAndKill()
		}
		if time.Now().After(end) {
			return len(g.Procs()) == 0
		}
		time.Sleep(pause) // v1 has no notification
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// freezeAndKill is for kernels without cgroup.kill: frozen processes do not fork. If this process has a thread in the
// group it only kills, as the thread would be frozen, too.
func (g *Group) freezeAndKill() {
	if g.hasSelf() {
		g.killEach()
		return
	}
	if g.v1 {
		_ = g.write(stateV1, "FROZEN")
		g.killEach()
		_ = g.write(stateV1, "THAWED") // frozen processes die only then
		return
	}
	_ = g.write(freezeV2, "1")
	g.killEach()
	_ = g.write(freezeV2, "0")
}

func (g *Group) killEach() {
	for _, pid := range g.Procs() {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if g.Has(pid) { // the pid was not reused
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// Add moves a process into the group.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// Has reports whether a process is in the group or a descendant.
func (g *Group) Has(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return strings.Contains(strings.ReplaceAll(string(text), "\n", "/"), "/"+g.Name()+"/")
}

// hasSelf reports whether a thread of this process is in the group, even if its main thread is not.
func (g *Group) hasSelf() bool {
	text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	return g.v1 && slices.Contains(strings.Fields(string(text)), strconv.Itoa(os.Getpid()))
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}
