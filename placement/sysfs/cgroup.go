package sysfs

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Each process is in one group of each cgroup hierarchy. /proc/self/cgroup has a line for each
// hierarchy, "ID:CONTROLLERS:PATH".
//
// The hierarchy of version 2 has no controllers in its line. Its mount point is /sys/fs/cgroup, or
// /sys/fs/cgroup/unified if version 1 is also in use. Version 1 has a hierarchy for each controller. A
// controller belongs to one version, so a controller with its own line belongs to version 1.
//
// A limit applies to a group and its descendants. The effective limit is the smallest between the
// process's group and the root.

// membership is the group of a process in one hierarchy.
type membership struct {
	controller string // "cpu" or "memory"
	v2         bool
	path       string // from /proc/self/cgroup
}

// readLimits reads the cgroup limits.
func (r *reader) readLimits(needs Needs) {
	table, ok := r.text("proc/self/cgroup")
	if !ok {
		r.note("CPU quota and memory limit are unknown: cannot read /proc/self/cgroup")
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

// member returns the group in the hierarchy with a controller.
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

// quota returns the CPU quota of a group and its ancestors, in CPUs. 0 means no quota.
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
		r.note("ignored the CPU quota %q with the period %q in /%s, which is not a number", quota, period, name)
		return 0, false
	}
	return float64(q) / float64(p), true
}

// memoryLimit returns the memory limit of a group and its ancestors, in bytes. 0 means no limit.
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
			r.note("ignored the memory limit %q in /%s, which is not a number", text, dir+file)
			return
		}
		lowest = min(lowest, n)
	})
	// In version 1, the largest multiple of the page size means no limit.
	if lowest > math.MaxInt64-1<<16 {
		return 0
	}
	return lowest
}

// climb calls visit with the directory of a group and of each visible ancestor.
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

// locate returns the mount point of a hierarchy and the path of a group below it. It tries the usual
// mount points first, because /proc/self/mountinfo has hundreds of lines in some containers.
func (r *reader) locate(m membership) (top, group string) {
	customary := []string{"sys/fs/cgroup/" + m.controller}
	if m.v2 {
		customary = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
	}
	if strings.HasPrefix(m.path, "/..") {
		r.note("limits of the %s cgroup %s are unknown: it is outside this cgroup namespace", m.controller, m.path)
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
		return mount.dir, "/" // a namespace that is invisible in /proc
	}
	r.note("limits of the %s cgroup %s are unknown: it is not mounted", m.controller, m.path)
	return "", ""
}

// mount is a mounted cgroup hierarchy.
type mount struct {
	v2      bool
	root    string // the group at the top of the mount
	dir     string // relative to our root
	options string // version 1: controllers, separated by commas
}

func (m mount) has(wanted membership) bool {
	return m.v2 == wanted.v2 && (m.v2 || slices.Contains(strings.Split(m.options, ","), wanted.controller))
}

// below returns the path of a group relative to the mount. In a container, the mount may show only
// that group.
func (m mount) below(group string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "/"
	}
	return rest
}

// cgroupMounts parses /proc/self/mountinfo. A line has this format:
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

// unescape decodes the octal escapes of mountinfo, such as \040 for a space.
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
