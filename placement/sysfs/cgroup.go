package sysfs

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cgroups in short: every process is in one group of each hierarchy, and
// /proc/self/cgroup has a line for each, "ID:CONTROLLERS:PATH". Version 2 is the
// one hierarchy without controllers in its line, mounted at /sys/fs/cgroup or,
// beside version 1, at /sys/fs/cgroup/unified. Version 1 has a hierarchy for each
// controller. A controller belongs to one of the two, so one that has a line of
// its own is version 1's. A limit holds for a group and all below it, so the
// smallest from the process's group up to the root counts.

// membership is where a process is in one hierarchy.
type membership struct {
	controller string // "cpu" or "memory"
	v2         bool
	path       string // as /proc/self/cgroup gives it
}

// readLimits reads what cgroups allow.
func (r *reader) readLimits(needs Needs) {
	table, ok := r.text("proc/self/cgroup")
	if !ok {
		r.note("CPU quota and memory limit are not known: /proc/self/cgroup cannot be read")
		return
	}
	if needs.CPUs {
		if m, ok := member(table, "cpu"); ok {
			r.machine.Quota = r.quota(m)
		}
	}
	if needs.Memory {
		if m, ok := member(table, "memory"); ok {
			r.machine.MemoryLimit = r.memoryLimit(m)
		}
	}
}

// member finds the hierarchy that has a controller.
func member(table, controller string) (m membership, found bool) {
	for line := range strings.Lines(table) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		list, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case slices.Contains(strings.Split(list, ","), controller):
			return membership{controller: controller, path: group}, true
		case list == "":
			m, found = membership{controller: controller, v2: true, path: group}, true
		}
	}
	return m, found
}

// quota returns the CPU quota of a group and all above it, in CPUs; 0 is none.
func (r *reader) quota(m membership) float64 {
	lowest := 0.0
	r.climb(m, func(dir string) {
		quota, limited := r.groupQuota(m, dir)
		if limited && (lowest == 0 || quota < lowest) {
			lowest = quota
		}
	})
	return lowest
}

// groupQuota returns the quota of one group.
func (r *reader) groupQuota(m membership, dir string) (cpus float64, limited bool) {
	var name, quota, period string
	if m.v2 {
		name = dir + "/cpu.max"
		text, ok := r.text(name)
		if !ok {
			return 0, false
		}
		quota, period, _ = strings.Cut(text, " ")
	} else {
		name = dir + "/cpu.cfs_quota_us"
		var ok bool
		if quota, ok = r.text(name); !ok || quota == "-1" {
			return 0, false
		}
		period, _ = r.text(dir + "/cpu.cfs_period_us")
	}
	if quota == "max" {
		return 0, false
	}
	q, errQ := strconv.ParseInt(quota, 10, 64)
	p, errP := strconv.ParseInt(period, 10, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		r.note("CPU quota %q of period %q in /%s is not understood and not regarded", quota, period, name)
		return 0, false
	}
	return float64(q) / float64(p), true
}

// memoryLimit returns the limit of a group and all above it, in bytes; 0 is none.
func (r *reader) memoryLimit(m membership) int64 {
	file := "/memory.limit_in_bytes"
	if m.v2 {
		file = "/memory.max"
	}
	lowest := int64(math.MaxInt64)
	r.climb(m, func(dir string) {
		text, ok := r.text(dir + file)
		if !ok || text == "max" {
			return
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			r.note("memory limit %q in /%s is not understood and not regarded", text, dir+file)
			return
		}
		lowest = min(lowest, n)
	})
	// Version 1 writes "none" as the largest multiple of the page size.
	if lowest > math.MaxInt64-1<<16 {
		return 0
	}
	return lowest
}

// climb calls visit with the directory of a group and of each group above it, as
// far as this process sees them.
func (r *reader) climb(m membership, visit func(dir string)) {
	top, group := r.locate(m)
	if top == "" {
		return
	}
	for dir := path.Join(top, group); ; dir = path.Dir(dir) {
		visit(dir)
		if len(dir) <= len(top) {
			return
		}
	}
}

// locate finds the directory at which a hierarchy is mounted and the path of a
// group below it. The customary places are tried first: /proc/self/mountinfo has
// hundreds of lines in some containers.
func (r *reader) locate(m membership) (top, group string) {
	customary := []string{"sys/fs/cgroup/" + m.controller}
	if m.v2 {
		customary = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
	}
	if strings.HasPrefix(m.path, "/..") {
		r.note("limits of the %s cgroup %s are not known: it lies outside of this cgroup namespace", m.controller, m.path)
		return "", ""
	}
	for _, dir := range customary {
		if r.exists(path.Join(dir, m.path, "cgroup.procs")) {
			return dir, m.path
		}
	}
	for _, mount := range r.cgroupMounts() {
		if !mount.has(m) {
			continue
		}
		if below := mount.below(m.path); r.exists(path.Join(mount.dir, below, "cgroup.procs")) {
			return mount.dir, below
		}
		return mount.dir, "/" // a namespace that /proc does not know of
	}
	r.note("limits of the %s cgroup %s are not known: it is mounted nowhere", m.controller, m.path)
	return "", ""
}

// mount is a mounted cgroup hierarchy.
type mount struct {
	v2      bool
	root    string // the group that the mount's top directory is
	dir     string // below our root
	options string // of version 1: its controllers, between commas
}

func (m mount) has(wanted membership) bool {
	return m.v2 == wanted.v2 && (m.v2 || slices.Contains(strings.Split(m.options, ","), wanted.controller))
}

// below returns a group's path below the mount, which in a container may show
// only that group.
func (m mount) below(group string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "/"
	}
	return rest
}

// cgroupMounts parses /proc/self/mountinfo, of which a line is
//
//	31 23 0:28 /root /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
func (r *reader) cgroupMounts() []mount {
	if r.parsed {
		return r.mounts
	}
	r.parsed = true
	text, _ := r.text("proc/self/mountinfo")
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 || kind[0] != "cgroup" && kind[0] != "cgroup2" {
			continue
		}
		r.mounts = append(r.mounts, mount{
			v2: kind[0] == "cgroup2", root: unescape(place[3]), dir: strings.Trim(unescape(place[4]), "/"), options: kind[2],
		})
	}
	return r.mounts
}

// unescape undoes mountinfo's octal escapes, \040 for a blank.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
