package process

import (
	"os"
	"strconv"
	"strings"
)

// HoldsSocket reports whether a process, a member of its session or a descendant of these has a socket open. sure is
// false if none was found to have it but some could not be examined.
func HoldsSocket(pid int, inode uint64) (holds, sure bool) {
	s := socketSearch{link: "socket:[" + strconv.FormatUint(inode, 10) + "]", sure: true, seen: map[int]bool{}}
	if s.searchTree(pid) {
		return true, true
	}
	members, err := Members([]int{pid})
	if err != nil {
		s.sure = false
	}
	for _, p := range members[pid] {
		if s.searchTree(p.PID) {
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

// searchTree searches a process and its descendants.
func (s *socketSearch) searchTree(pid int) bool {
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

// Children returns the children of a process. It needs CONFIG_PROC_CHILDREN.
func Children(pid int) []int { return (&socketSearch{}).children(pid) }

// HasVariable reports whether entry (NAME=VALUE) is in the environment that a process was started with.
func HasVariable(pid int, entry string) bool {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	name, value, _ := strings.Cut(entry, "=")
	has, ok := variableIn(environ, name)
	return ok && has == value
}

// children returns the children of all threads of a process.
func (s *socketSearch) children(pid int) (pids []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	for _, thread := range s.names(folder) {
		text, err := os.ReadFile(folder + thread + "/children")
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

// names lists a directory of a process. It returns nil if the process is gone.
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
