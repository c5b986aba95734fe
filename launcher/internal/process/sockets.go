package process

import (
	"os"
	"strconv"
	"strings"
)

// HoldsSocket reports whether a process, one of its session or one that descends from it has
// a socket open. sure is false where some of them could not be looked into and none of the
// others has it.
func HoldsSocket(pid int, inode uint64) (holds, sure bool) {
	s := socketSearch{link: "socket:[" + strconv.FormatUint(inode, 10) + "]", sure: true, seen: map[int]bool{}}
	if s.below(pid) {
		return true, true
	}
	members, err := Members([]int{pid})
	if err != nil {
		s.sure = false
	}
	for _, p := range members[pid] {
		if s.below(p.PID) {
			return true, true
		}
	}
	return false, s.sure
}

type socketSearch struct {
	link string
	sure bool
	seen map[int]bool
}

// below looks into a process, and then into those that descend from it.
func (s *socketSearch) below(pid int) bool {
	for left := []int{pid}; len(left) > 0; {
		pid, left = left[0], left[1:]
		if s.seen[pid] {
			continue
		}
		s.seen[pid] = true
		if s.has(pid) {
			return true
		}
		left = append(left, s.children(pid)...)
	}
	return false
}

func (s *socketSearch) has(pid int) bool {
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	for _, name := range s.names(folder) {
		if target, err := os.Readlink(folder + name); err == nil && target == s.link {
			return true
		}
	}
	return false
}

// Children are the processes that one has started and that are there, as far as the kernel tells.
func Children(pid int) []int { return (&socketSearch{}).children(pid) }

// HasVariable reports whether a process was started with NAME=VALUE in its environment.
func HasVariable(pid int, entry string) bool {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	name, value, _ := strings.Cut(entry, "=")
	has, ok := variableIn(environ, name)
	return ok && has == value
}

// children are those that the threads of a process have started.
func (s *socketSearch) children(pid int) (pids []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	for _, thread := range s.names(folder) {
		text, err := os.ReadFile(folder + thread + "/children") // needs CONFIG_PROC_CHILDREN
		if _, gone := os.Stat(folder + thread); err != nil && gone == nil {
			s.sure = false
		}
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// names are those in a folder of a process's; none where that is gone.
func (s *socketSearch) names(folder string) []string {
	dir, err := os.Open(folder)
	if err != nil {
		s.sure = s.sure && os.IsNotExist(err)
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}
