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
	page := int64(os.Getpagesize())
	loads := make(map[int]Load, len(sessions))
	err := eachMember(sessions, func(p Proc) {
		l := loads[p.SID]
		loads[p.SID] = Load{CPU: l.CPU + (p.CPU + p.ChildCPU).Duration(), Memory: l.Memory + p.Pages*page}
	})
	return loads, err
}
