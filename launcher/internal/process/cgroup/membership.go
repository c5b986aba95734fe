package cgroup

import (
	"slices"
	"strings"
)

// Membership is a line of /proc/PID/cgroup, "6:cpu,cpuacct:/path": the group of one
// hierarchy that a process is in.
type Membership struct {
	Controllers string // as the line has them; "" is version 2
	Path        string // below the hierarchy's root, as our cgroup namespace sees it
}

// Memberships reads the file; other lines are passed over.
func Memberships(lines string) (list []Membership) {
	for line := range strings.Lines(lines) {
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(field) == 3 && (field[1] != "" || field[0] == "0") {
			list = append(list, Membership{Controllers: field[1], Path: field[2]})
		}
	}
	return list
}

// Has reports whether it is a hierarchy of version 1 with a controller.
func (m Membership) Has(controller string) bool {
	return slices.Contains(strings.Split(m.Controllers, ","), controller)
}
