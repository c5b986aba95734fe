package cgroup

import (
	"slices"
	"strings"
)

// Membership is a line of /proc/PID/cgroup, "6:cpu,cpuacct:/path": a process's group in one hierarchy.
type Membership struct {
	Controllers string // comma-separated; "": version 2
	Path        string // below the hierarchy's root in our cgroup namespace
}

// Memberships parses /proc/PID/cgroup and ignores other lines.
func Memberships(lines string) (list []Membership) {
	for line := range strings.Lines(lines) {
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(field) == 3 && (field[1] != "" || field[0] == "0") {
			list = append(list, Membership{Controllers: field[1], Path: field[2]})
		}
	}
	return list
}

// Has reports whether the hierarchy is version 1 and has a controller.
func (m Membership) Has(controller string) bool {
	return slices.Contains(strings.Split(m.Controllers, ","), controller)
}
