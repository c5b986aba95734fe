package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ownGroupFaults kill the launcher in cases where only the job's own cgroup identifies its processes.
func ownGroupFaults() []fault {
	var all []fault
	for _, manner := range []string{"default", "ignore"} {
		k := kill{"launcher", syscall.SIGKILL, "bare", manner, 137, ""}
		all = append(all, fault{name: k.name(), ownCgroup: true, criterion: k.criterion(), act: k.act, check: k.check()})
	}
	within := kill{"launcher", syscall.SIGKILL, "bare", "ignore", 137, ""}
	return append(all, fault{
		name: "launcher SIGSTOP, a second later SIGKILL, bare, ignore", ownCgroup: true, own: true,
		criterion: within.criterion(), act: func(s *scene) {
			s.surround(within.shape, within.manner)
			s.signal(s.command.Process.Pid, syscall.SIGSTOP)
			s.reachesState(s.command.Process.Pid, 'T')
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		}, check: ends(137),
	})
}

// ownGroups returns the directories of the cgroups of a process that gorun made.
func ownGroups(pid int) (dirs []string) {
	theirs, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	ours, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(theirs)) {
		line = strings.TrimSpace(line)
		if slices.Contains(strings.Fields(string(ours)), line) {
			continue
		}
		path := line[strings.LastIndexByte(line, ':')+1:]
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer"} {
			if dir := filepath.Join(mount, path); strings.Contains(path, "/gorun-") && exists(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
