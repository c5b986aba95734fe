// Package cgroup keeps the processes of one job in a control group of their own,
// where the launcher may make one. What a rank starts is born into it and stays
// there, whatever it does to its session, its parents and its environment.
//
// With cgroup v2 (and CLONE_INTO_CGROUP, Linux 5.7) a rank is born into the group.
// With v1 it is the freezer's hierarchy, where single threads can be in a group of
// their own: a thread that starts ranks enters it, and they are born where it is.
// See cgroups(7), and the kernel's admin-guide/cgroup-v2 and cgroup-v1/freezer.
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

// Prefix begins the name of every group that a launcher makes.
const Prefix = "gorun-"

// ErrNone says that no group can be made here: there is no hierarchy, or it is
// not ours to write in.
var ErrNone = errors.New("no writable cgroup")

// ErrBusy says that a group still has processes.
var ErrBusy = errors.New("the cgroup has processes")

// Group is the control group of one job on this host.
type Group struct {
	dir string
	v1  bool
	fd  int // v2: the directory; v1: the file of threads; -1: only to be ended

	removed bool
}

// Make makes the group Prefix+name below the group that this process is in. The
// error is ErrNone where that cannot be done.
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

// Open returns a group that somebody made, to be ended.
func Open(dir string) *Group {
	_, err := os.Lstat(filepath.Join(dir, stateV1))
	return &Group{dir: dir, v1: err == nil, fd: -1}
}

// Dir is the group's directory.
func (g *Group) Dir() string { return g.dir }

// Name is the group's name, the last of its path in /proc/PID/cgroup.
func (g *Group) Name() string { return filepath.Base(g.dir) }

// BirthFD is the descriptor for CLONE_INTO_CGROUP, -1 where that is not the way.
func (g *Group) BirthFD() int {
	if g.v1 {
		return -1
	}
	return g.fd
}

// Enter takes the calling thread into the group, until Leave, where that is the
// way. What it starts from then on is born there. The thread has to
// be locked to its goroutine.
func (g *Group) Enter() error {
	if !g.v1 {
		return nil
	}
	if _, err := unix.Write(g.fd, []byte("0")); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", g.dir, err)
	}
	return nil
}

// Leave takes the calling thread back to the group from which it came.
func (g *Group) Leave() {
	if g.v1 {
		_ = os.WriteFile(filepath.Join(filepath.Dir(g.dir), "tasks"), []byte("0"), 0)
	}
}

// Procs lists the processes in the group and in those below, without this one,
// which may have a thread there.
func (g *Group) Procs() (pids []int) {
	for _, dir := range g.dirs() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // it is gone
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 && pid != os.Getpid() { // 0: of another PID namespace
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// dirs lists the directories of the group and those below, each after its parent.
func (g *Group) dirs() (dirs []string) {
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // it is gone
		}
		if d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// Remove removes the group and those below it; the error is ErrBusy if one of
// them has processes. Zombies don't count.
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

// Close gives back the descriptor. The group stays.
func (g *Group) Close() {
	if g.fd >= 0 {
		_ = unix.Close(g.fd)
		g.fd = -1
	}
}

// Files of the two versions by which processes are killed.
const (
	killV2   = "cgroup.kill"   // Linux 5.14
	freezeV2 = "cgroup.freeze" // Linux 5.2
	stateV1  = "freezer.state"
)

// Kill ends every process of the group by SIGKILL, also those that fork as fast
// as they can, and reports whether none is left after limit.
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
		time.Sleep(pause) // nothing tells of the end of many
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// freezeAndKill is for kernels without cgroup.kill: what stands still forks
// nothing. A thread of this process in the group forbids it, as it would stand
// still, too.
func (g *Group) freezeAndKill() {
	if g.hasSelf() {
		g.killEach()
		return
	}
	if g.v1 {
		_ = g.write(stateV1, "FROZEN")
		g.killEach()
		_ = g.write(stateV1, "THAWED") // only then they die
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
		if g.Has(pid) { // and not somebody who got its number
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// Has reports whether a process is in the group or in one below.
func (g *Group) Has(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return strings.Contains(strings.ReplaceAll(string(text), "\n", "/"), "/"+g.Name()+"/")
}

// hasSelf: a process whose first thread is elsewhere has to be looked at thread
// by thread.
func (g *Group) hasSelf() bool {
	text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	return g.v1 && slices.Contains(strings.Fields(string(text)), strconv.Itoa(os.Getpid()))
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}
