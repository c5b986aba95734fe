package agent

import (
	"fmt"
	"sync"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
)

// oomWatch knows whom the kernel killed for lack of memory while the ranks ran.
type oomWatch struct {
	mu    sync.Mutex
	kills *process.OOMKills
}

// begin looks for the first time. It takes some file reading, which a job that
// is over in an instant is spared.
func (o *oomWatch) begin() *process.OOMKills {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kills == nil {
		o.kills = process.WatchOOM()
	}
	return o.kills
}

func (o *oomWatch) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kills != nil {
		o.kills.Close()
	}
}

// explain says of a rank which SIGKILL ended that it was the kernel's victim,
// how that is known, and what may help, where so many ranks share the memory.
func (o *oomWatch) explain(e *spec.Exit, ranks int) {
	if kill, ok := o.begin().Killed(e.PID); ok {
		e.OOM, e.Hint = describeOOM(kill, ranks)
	}
}

// describeOOM puts into words what was used up, and what is to be done about it.
func describeOOM(kill process.OOMKill, ranks int) (text, hint string) {
	if kill.Limit == 0 {
		return kill.Evidence, ""
	}
	size := binarySize(kill.Limit)
	text, way := kill.Evidence+", limit "+size, "lower --nproc-per-node or raise the limit"
	if kill.Host {
		size = "this host's " + size
		text, way = kill.Evidence+", "+size, "lower --nproc-per-node"
	}
	if ranks == 1 {
		return text, "the program needs more than " + size
	}
	return text, fmt.Sprintf("%d ranks share %s: %s", ranks, size, way)
}

// binarySize writes a number of bytes in the unit that reads well.
func binarySize(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
