package process

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Load is the resource usage of the processes that currently exist in a session.
type Load struct {
	// CPU is the CPU time used, including that of reaped children.
	CPU time.Duration
	// Memory is the sum of their resident set sizes in bytes; shared pages count for each process.
	Memory int64
	// IO counts the bytes that they and their reaped children read and wrote, those of a disk twice.
	IO int64
}

// Loads returns the usage of each session that has processes.
func Loads(sessions []int) (map[int]Load, error) {
	page := int64(os.Getpagesize())
	loads := make(map[int]Load, len(sessions))
	err := eachMember(sessions, func(p Proc) {
		l := loads[p.SID]
		loads[p.SID] = Load{CPU: l.CPU + (p.CPU + p.ChildCPU).Duration(), Memory: l.Memory + p.Pages*page, IO: l.IO + p.io()}
	})
	return loads, err
}

// io returns the bytes that p has read and written, 0 if that is not known.
func (p Proc) io() (sum int64) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/io") // needs the right to trace it
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "rchar", "wchar", "read_bytes", "write_bytes":
			n, _ := strconv.ParseInt(value, 10, 64) // the kernel's number
			sum += n
		}
	}
	return sum
}
