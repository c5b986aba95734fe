package process

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shells are programs that neither pass signals on to what they run nor have anything to do themselves.
var shells = []string{"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"}

// LastCall is the time that helpers get to end after their leader has used up its own.
const LastCall = time.Second

// Leaders returns those of procs that a signal to end should reach first: all whose parent is not one of procs, and
// the children to which a leader leaves the work. The others are helpers, such as the workers of PyTorch's DataLoader,
// which their parent needs to save its work and ends by itself.
func Leaders(procs []Proc) (leaders []Proc) {
	parents := make(map[int]*parent, len(procs))
	for _, p := range procs {
		parents[p.PID] = &parent{Proc: p}
	}
	for _, p := range procs {
		if parents[p.PID].leads(parents) {
			leaders = append(leaders, p)
		}
	}
	return leaders
}

// LeavesWork reports whether a program leaves its work to a child.
func LeavesWork(pid int) bool { return worker(pid) != 0 }

// parent is a process with what was found out about it.
type parent struct {
	Proc
	leader, judged bool
	worker         *int // nil: unknown yet
}

func (p *parent) leads(parents map[int]*parent) bool {
	if !p.judged {
		p.judged = true // first, for the pids of processes that have changed parents meanwhile may form a circle
		above := parents[p.PPID]
		p.leader = above == nil || above.leads(parents) && above.leavesWorkTo(p.PID)
	}
	return p.leader
}

func (p *parent) leavesWorkTo(child int) bool {
	if p.worker == nil {
		p.worker = new(worker(p.PID))
	}
	return *p.worker == child || *p.worker < 0
}

// worker returns the child to which a process leaves the work: each (-1) if it is a shell, and the one that it waits
// for if it is in wait4 or waitid, as unshare and perf are. 0: it works itself, or cannot be examined.
func worker(pid int) int {
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err == nil && slices.Contains(shells, path.Base(exe)) {
		return -1
	}
	switch number, argument := systemCall(pid); number {
	case unix.SYS_WAIT4:
		return cmp.Or(max(-1, int(int32(argument[0]))), -1) // below 1 it is a process group, or any child
	case unix.SYS_WAITID:
		if argument[0] == unix.P_PID {
			return int(int32(argument[1]))
		}
		return -1
	}
	return 0
}

// systemCall returns the system call in which the main thread waits, and its arguments; -1: none that can be read.
func systemCall(pid int) (number int, arguments [6]uint64) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall") // needs the right to trace it
	words := strings.Fields(string(text))                             // "61 0xffffffff 0x7ffd…", or "running"
	if len(words) <= len(arguments) {
		return -1, arguments
	}
	for i := range arguments {
		arguments[i], _ = strconv.ParseUint(words[1+i], 0, 64)
	}
	number, err := strconv.Atoi(words[0])
	if err != nil {
		return -1, arguments
	}
	return number, arguments
}
