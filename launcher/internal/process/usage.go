package process

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"time"
)

// Load is the resource usage of the processes that currently exist in a session, or in one that these have begun.
type Load struct {
	// CPU is the CPU time used, including that of reaped children.
	CPU time.Duration
	// Memory is the sum of their resident set sizes in bytes; shared pages count for each process.
	Memory int64
	// IO counts the bytes that they and their reaped children read and wrote, those of a disk nine times, as a program
	// that waits for it in between transfers few.
	IO int64
	// TCP counts the bytes of the sockets that they have open, each once.
	TCP  int64
	Main MainThread
}

// Loads returns the usage of each session that has processes. sockets are the bytes of TCP sockets by inode; it removes
// those that it finds. main may be nil.
func Loads(sessions []int, sockets map[uint64]int64, main *MainThreads) (map[int]Load, error) {
	page := int64(os.Getpagesize())
	loads, owners := make(map[int]Load, len(sessions)), make(map[int]int, len(sessions))
	for _, s := range sessions {
		owners[s] = s
	}
	leaders, leads := make(map[int][]Proc, len(sessions)), make(map[int]bool, len(sessions))
	err := eachProcess(func(p Proc) { // parents before children, until pids wrap around
		owner := cmp.Or(owners[p.SID], owners[p.PPID])
		if owner == 0 {
			return
		}
		owners[p.PID] = owner
		l := loads[owner]
		loads[owner] = Load{
			CPU: l.CPU + (p.CPU + p.ChildCPU).Duration(), Memory: l.Memory + p.Pages*page, IO: l.IO + p.io(),
			TCP: l.TCP + p.takeFrom(sockets),
		}
		if main != nil && (p.PID == owner || leads[p.PPID] && LeavesWork(p.PPID)) {
			leads[p.PID], leaders[owner] = true, append(leaders[owner], p)
		}
	})
	if main != nil {
		main.look(leaders, loads)
	}
	return loads, err
}

// io returns the bytes that p has read and written, 0 if that is not known.
func (p Proc) io() (sum int64) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/io") // needs the right to trace it
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64) // the kernel's number
		switch name {
		case "rchar", "wchar":
			sum += n
		case "read_bytes", "write_bytes":
			sum += 8 * n
		}
	}
	return sum
}

// takeFrom removes the sockets that p has open, and returns their sum.
func (p Proc) takeFrom(sockets map[uint64]int64) (sum int64) {
	if len(sockets) == 0 {
		return 0
	}
	var s socketSearch
	folder := "/proc/" + strconv.Itoa(p.PID) + "/fd/"
	for _, name := range s.names(folder) {
		target, _ := os.Readlink(folder + name) // it may be closed
		inode, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]"), 10, 64)
		sum += sockets[inode]
		delete(sockets, inode)
	}
	return sum
}
