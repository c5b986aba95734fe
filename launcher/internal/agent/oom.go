package agent

import (
	"fmt"
	"sync"

	"gorun/launcher/internal/process"
)

// oomWatch knows how often the kernel had killed for lack of memory before the
// ranks ran.
type oomWatch struct {
	once   sync.Once
	watch  *process.OOMWatch
	before process.OOMState
}

// begin looks for the first time. It takes some file reading, which a job that
// is over in an instant is spared.
func (o *oomWatch) begin() {
	o.once.Do(func() {
		if w, err := process.NewOOMWatch(); err == nil { // without a memory cgroup there is nothing to tell
			o.watch, o.before = w, w.Snapshot()
		}
	})
}

// reason says that a rank which SIGKILL ended was the kernel's victim, and how
// that is known; "" if it was not, as far as can be seen.
func (o *oomWatch) reason() string {
	o.begin()
	if o.watch == nil {
		return ""
	}
	after := o.watch.Snapshot()
	kills, limit, ok := o.before.Since(after)
	if !ok || kills == 0 {
		return ""
	}
	text := fmt.Sprintf("oom_kill of its cgroup %d→%d", o.before.Kills, after.Kills)
	if limit > 0 {
		text += fmt.Sprintf(", limit %.1f GiB", float64(limit)/(1<<30))
	}
	return text
}
