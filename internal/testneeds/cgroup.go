package testneeds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Cgroup is a hierarchy in which a test may make cgroups with a controller.
type Cgroup struct {
	Dir string
	V1  bool
}

// cgroupLimits are the files with the limit of a controller, by version (true: 1). The limit of "cpu" is in
// microseconds
// per period of 100 ms.
var cgroupLimits = map[string]map[bool]string{
	"cpu":    {true: "cpu.cfs_quota_us", false: "cpu.max"},
	"cpuset": {true: "cpuset.cpus", false: "cpuset.cpus"},
	"memory": {true: "memory.limit_in_bytes", false: "memory.max"},
	"pids":   {true: "pids.max", false: "pids.max"},
}

// WritableCgroup skips unless the test may make a group in a hierarchy with a controller ("cpu", "cpuset", "memory",
// "pids").
func WritableCgroup(t testing.TB, controller string) Cgroup {
	t.Helper()
	place, err := FindCgroup(controller)
	if err != nil {
		Skip(t, LayerCgroup, err.Error())
	}
	return place
}

// FindCgroup finds the root of a version 1 hierarchy, or of version 2 if groups below it have the controller.
func FindCgroup(controller string) (Cgroup, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Cgroup{}, err
	}
	why := errors.New("no hierarchy with the controller " + controller + " is mounted")
	for line := range strings.Lines(string(mounts)) {
		head, tail, _ := strings.Cut(line, " - ")
		where, kind := strings.Fields(head), strings.Fields(tail)
		if len(where) < 5 || len(kind) < 3 {
			continue
		}
		place := Cgroup{Dir: where[4], V1: kind[0] == "cgroup"}
		if kind[0] != "cgroup2" && (!place.V1 || !slices.Contains(strings.Split(kind[2], ","), controller)) {
			continue
		}
		group, err := place.Make(controller)
		if err == nil {
			return place, os.Remove(group)
		}
		why = err
	}
	return Cgroup{}, why
}

// Make makes a group with a controller, which the caller must remove.
func (c Cgroup) Make(controller string) (dir string, err error) {
	if dir, err = os.MkdirTemp(c.Dir, "gorun-test-"); err != nil {
		return "", err
	}
	if _, err = os.Stat(filepath.Join(dir, cgroupLimits[controller][c.V1])); err == nil && controller == "cpuset" && c.V1 {
		err = inheritMemory(dir)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// inheritMemory copies the NUMA nodes of the parent to a group of version 1, which starts without any and then
// accepts no
// process.
func inheritMemory(dir string) error {
	const file = "cpuset.mems"
	nodes, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), nodes, 0o644)
}

// Limit sets the limit of a controller for a group.
func (c Cgroup) Limit(dir, controller string, limit int) error {
	return c.Set(dir, controller, fmt.Sprint(limit))
}

// Set is Limit for a value that is not a number: "2-5" for "cpuset".
func (c Cgroup) Set(dir, controller, limit string) error {
	path := filepath.Join(dir, cgroupLimits[controller][c.V1])
	if err := os.WriteFile(path, []byte(limit), 0o644); err != nil {
		return err
	}
	now, err := os.ReadFile(path)
	// cpu.max ends with the period
	if text, _, _ := strings.Cut(strings.TrimSpace(string(now)), " "); err == nil && text != limit {
		return fmt.Errorf("%s is %s, wanted %s", path, text, limit)
	}
	return err
}

// OwnCgroup skips unless the test may make a cgroup below its own, of version 2 or of version 1's freezer.
func OwnCgroup(t testing.TB) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		Skip(t, LayerCgroup, err.Error())
	}
	for line := range strings.Lines(string(groups)) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, own, _ := strings.Cut(group, ":")
		mounts := map[string][]string{"": {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "freezer": {"/sys/fs/cgroup/freezer"}}
		for _, mount := range mounts[controllers] {
			parent := filepath.Join(mount, own)
			probe := filepath.Join(parent, "gorun-probe-"+strconv.Itoa(os.Getpid()))
			if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err == nil && os.Mkdir(probe, 0o755) == nil {
				_ = os.Remove(probe)
				return
			}
		}
	}
	Skip(t, LayerCgroup, "no cgroup can be made below this process's own")
}
