package process

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"gorun/launcher/internal/process/cgroup"
)

// OOMWatch reads how often the kernel's out-of-memory killer struck in the
// memory cgroup of this process, in which its ranks are as well: memory.events
// (cgroup v2, and all groups below are counted in it) or memory.oom_control (v1,
// since Linux 4.13, counts the group alone). A kill is counted in the victim's
// group wherever the limit was set, so ancestors matter for the limit only.
type OOMWatch struct {
	files fs.FS
	// levels are our group's folder and those of its ancestors as far as they are
	// mounted, our own first.
	levels []string
	group  string // our group, from the root of the hierarchy
	names  oomFiles
}

// oomFiles names the files of one version of cgroups.
type oomFiles struct{ kills, limit, usage, peak string }

var (
	oomFilesV1 = oomFiles{
		"memory.oom_control", "memory.limit_in_bytes", "memory.usage_in_bytes",
		"memory.max_usage_in_bytes",
	}
	oomFilesV2 = oomFiles{"memory.events", "memory.max", "memory.current", "memory.peak"}
)

// OOMState is what one look found. All sizes are in bytes.
type OOMState struct {
	Kills uint64
	Limit uint64 // the smallest of our group and its ancestors, 0: none
	Usage uint64 // of the group with that limit, else our own
	Peak  uint64 // the same, 0 where the kernel keeps none (v2 before 5.19)
	valid bool
}

// NewOOMWatch finds the memory cgroup of this process. That takes two longer
// files of /proc: call it off the critical path, but before what it watches.
func NewOOMWatch() (*OOMWatch, error) { return newOOMWatch(os.DirFS("/")) }

func newOOMWatch(files fs.FS) (*OOMWatch, error) {
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("watch for out-of-memory kills: %w", err)
	}
	mounts, err := fs.ReadFile(files, "proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("watch for out-of-memory kills: %w", err)
	}
	group, names := memoryGroup(string(groups)), oomFilesV1
	if !group.v1 {
		names = oomFilesV2
	}
	levels := group.levels(string(mounts))
	if len(levels) == 0 {
		return nil, fmt.Errorf("watch for out-of-memory kills: memory cgroup %q is not mounted", group.path)
	}
	return &OOMWatch{files: files, levels: levels, group: group.path, names: names}, nil
}

// Snapshot looks at the counter and the limits: two small files and one more per
// ancestor.
func (w *OOMWatch) Snapshot() OOMState {
	var s OOMState
	s.Kills, s.valid = w.kills()
	tightest := w.levels[0]
	for _, level := range w.levels {
		if limit, ok := w.number(level, w.names.limit); ok && (s.Limit == 0 || limit < s.Limit) {
			s.Limit, tightest = limit, level
		}
	}
	s.Usage, _ = w.number(tightest, w.names.usage)
	s.Peak, _ = w.number(tightest, w.names.peak)
	return s
}

// Since compares an earlier look with a later one: the kills between them and
// the limit, 0 if there is none and the whole host was out of memory. It is not
// ok where one of them could not read the counter.
func (s OOMState) Since(after OOMState) (kills int, limit uint64, ok bool) {
	if !s.valid || !after.valid || after.Kills < s.Kills {
		return 0, after.Limit, false
	}
	return int(after.Kills - s.Kills), after.Limit, true
}

// kills reads the line "oom_kill N". The root group of v2 has no such file.
func (w *OOMWatch) kills() (uint64, bool) {
	text, err := fs.ReadFile(w.files, path.Join(w.levels[0], w.names.kills))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if count, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
			return decimal(bytes.TrimSpace(count))
		}
	}
	return 0, false
}

// unlimitedV1 is where v1's "no limit", the largest multiple of a page in 63
// bits, begins for pages of up to 64 KiB.
const unlimitedV1 = math.MaxInt64 - 64<<10

// number reads a file that holds one size. "max" and v1's equal are no number.
func (w *OOMWatch) number(level, name string) (uint64, bool) {
	text, err := fs.ReadFile(w.files, path.Join(level, name))
	if err != nil {
		return 0, false
	}
	n, ok := decimal(bytes.TrimSpace(text))
	return n, ok && n < unlimitedV1
}

// controlGroup is a line of /proc/self/cgroup.
type controlGroup struct {
	path string
	v1   bool
}

// memoryGroup picks the line of the memory controller: that of v1 where it has a
// hierarchy of its own, else the only one of v2.
func memoryGroup(lines string) (g controlGroup) {
	for _, m := range cgroup.Memberships(lines) {
		switch {
		case m.Has("memory"):
			return controlGroup{path: m.Path, v1: true}
		case m.Controllers == "":
			g.path = m.Path
		}
	}
	return g
}

// levels returns the folders of g and its ancestors up to the mount point,
// without the leading slash, as fs.FS wants it. A container sees its own group as
// the root of the mount, although /proc/self/cgroup may name all of the path.
func (g controlGroup) levels(mountinfo string) (levels []string) {
	for line := range strings.Lines(mountinfo) {
		m, ok := parseCgroupMount(line)
		if !ok || m.v1 != g.v1 {
			continue
		}
		below, inside := strings.CutPrefix(g.path, strings.TrimSuffix(m.root, "/"))
		if !inside || strings.Contains(below, "..") {
			below = "/"
		}
		for below = path.Clean("/" + below); ; below = path.Dir(below) {
			levels = append(levels, strings.TrimPrefix(path.Join(m.point, below), "/"))
			if below == "/" {
				return levels
			}
		}
	}
	return nil
}

// cgroupMount is a line of /proc/self/mountinfo that shows memory cgroups.
type cgroupMount struct {
	root, point string
	v1          bool
}

// parseCgroupMount reads "id parent major:minor root point options… - type source
// options", see proc_pid_mountinfo(5).
func parseCgroupMount(line string) (m cgroupMount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	place, kind := strings.Fields(head), strings.Fields(tail)
	if len(place) < 5 || len(kind) < 3 {
		return m, false
	}
	m = cgroupMount{root: place[3], point: place[4], v1: kind[0] == "cgroup"}
	return m, kind[0] == "cgroup2" || m.v1 && slices.Contains(strings.Split(kind[2], ","), "memory")
}
