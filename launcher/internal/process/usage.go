package process

import (
	"os"
	"time"
)

// Load is what the processes use that exist now in a session.
type Load struct {
	// CPU is the time that they have used, with that of children which they waited for.
	CPU time.Duration
	// Memory is what of theirs is in memory, in bytes; pages that several share count for
	// each of them.
	Memory int64
}

// Loads returns what the processes use that exist now in each session; one without any is
// not in it.
func Loads(sessions []int) (map[int]Load, error) {
	loads := make(map[int]Load, len(sessions))
	asked := make(map[int]bool, len(sessions))
	for _, sid := range sessions {
		asked[sid] = true
	}
	page := int64(os.Getpagesize())
	err := eachProc(func(p Proc) {
		if asked[p.SID] {
			l := loads[p.SID]
			l.CPU += (p.CPU + p.ChildCPU).Duration()
			l.Memory += p.Pages * page
			loads[p.SID] = l
		}
	})
	return loads, err
}

// Usage returns the CPU time that the processes which exist now in each session
// have used so far.
func Usage(sessions []int) (map[int]Ticks, error) {
	used := make(map[int]Ticks, len(sessions))
	for _, sid := range sessions {
		used[sid] = 0
	}
	err := eachProc(func(p Proc) {
		if _, asked := used[p.SID]; asked {
			used[p.SID] += p.CPU
		}
	})
	return used, err
}
