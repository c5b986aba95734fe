package process

import (
	"os"
	"time"
)

// Load is the resource usage of the processes that currently exist in a session.
type Load struct {
	// CPU is the CPU time used, including that of reaped children.
	CPU time.Duration
	// Memory is the sum of their resident set sizes in bytes; shared pages count for each process.
	Memory int64
}

// Loads returns the usage of each session that has processes.
func Loads(sessions []int) (map[int]Load, error) {
	page := int64(os.Getpagesize())
	loads := make(map[int]Load, len(sessions))
	err := eachMember(sessions, func(p Proc) {
		l := loads[p.SID]
		loads[p.SID] = Load{CPU: l.CPU + (p.CPU + p.ChildCPU).Duration(), Memory: l.Memory + p.Pages*page}
	})
	return loads, err
}
