package process

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"gorun/launcher/internal/process/cgroup"
)

// oomCounter counts the kills of the kernel's out-of-memory killer in this process's memory cgroup, which its ranks
// share: memory.events (cgroup v2, includes descendants) or memory.oom_control (v1 since Linux 4.13, the group
// alone). A kill counts in the victim's group wherever the limit was set, so ancestors matter for the limit only.
type oomCounter struct {
	files         fs.FS
	levels        []string // directories of our group and its mounted ancestors, innermost first
	group         string   // our group, from the root of the hierarchy
	events, limit string   // names of files
}

// oomCount is one reading of an oomCounter.
type oomCount struct {
	kills uint64
	limit uint64 // the smallest of our group and its ancestors in bytes; 0: none
	valid bool   // the counter could be read
}

// newOOMCounter finds the memory cgroup of this process. It reads two long files of /proc, so call it off the critical
// path.
func newOOMCounter(files fs.FS) (*oomCounter, error) {
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := fs.ReadFile(files, "proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	group := memoryGroup(string(groups))
	levels := group.levels(string(mounts))
	if len(levels) == 0 {
		return nil, fmt.Errorf("memory cgroup %q is not mounted", group.path)
	}
	c := &oomCounter{files: files, levels: levels, group: group.path, events: "memory.events", limit: "memory.max"}
	if group.v1 {
		c.events, c.limit = "memory.oom_control", "memory.limit_in_bytes"
	}
	return c, nil
}

// read reads the line "oom_kill N" and the limits. The root group of v2 has no counter.
func (c *oomCounter) read() (now oomCount) {
	events, _ := fs.ReadFile(c.files, path.Join(c.levels[0], c.events))
	for line := range bytes.Lines(events) {
		if count, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
			now.kills, now.valid = decimal(bytes.TrimSpace(count))
		}
	}
	for _, level := range c.levels {
		text, _ := fs.ReadFile(c.files, path.Join(level, c.limit))
		limit, ok := decimal(bytes.TrimSpace(text)) // "max" or unlimitedV1: none
		if ok && limit < unlimitedV1 && (now.limit == 0 || limit < now.limit) {
			now.limit = limit
		}
	}
	return now
}

// unlimitedV1 is a lower bound of v1's "no limit", the largest multiple of the page size in 63 bits.
const unlimitedV1 = math.MaxInt64 - 64<<10

// since returns the number of kills after an earlier reading; ok is false if either is invalid.
func (c oomCount) since(before oomCount) (kills uint64, ok bool) {
	return c.kills - before.kills, c.valid && before.valid && c.kills >= before.kills
}

// controlGroup is a line of /proc/self/cgroup.
type controlGroup struct {
	path string
	v1   bool
}

// memoryGroup returns the group of the memory controller: v1's, if it has its own hierarchy, else v2's.
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

// levels returns the directories of g and its ancestors up to the mount point, without leading slash for fs.FS. A
// container sees its own group as the root of the mount, although /proc/self/cgroup may have the full path.
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

// cgroupMount is a mount of memory cgroups in /proc/self/mountinfo.
type cgroupMount struct {
	root, point string
	v1          bool
}

// parseCgroupMount parses "id parent major:minor root point options… - type source options", see
// proc_pid_mountinfo(5).
func parseCgroupMount(line string) (m cgroupMount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	place, kind := strings.Fields(head), strings.Fields(tail)
	if len(place) < 5 || len(kind) < 3 {
		return m, false
	}
	m = cgroupMount{root: place[3], point: place[4], v1: kind[0] == "cgroup"}
	return m, kind[0] == "cgroup2" || m.v1 && slices.Contains(strings.Split(kind[2], ","), "memory")
}
