package agent

import (
	"fmt"
	"sync"

	"gorun/launcher/internal/process"
)

// bindNotices limits notices about failed bindings to one of each kind: in a container all ranks meet the same seccomp
// filter. It is safe for concurrent use.
type bindNotices struct{ cpus, memory sync.Once }

func (s sink) BindFailed(id int, b process.BindError) {
	row := s.rank(id).row
	if b.CPUs != 0 {
		s.bindNotices.cpus.Do(func() {
			s.agent.notice("%s", bindNotice(id, "CPUs "+row.CPUs.String(), b.CPUs))
		})
	}
	if b.Nodes != 0 {
		s.bindNotices.memory.Do(func() {
			s.agent.notice("%s", bindNotice(id, "the memory of NUMA node "+row.Memories.String(), b.Nodes))
		})
	}
}

func bindNotice(rank int, what string, why error) string {
	return fmt.Sprintf("rank %d runs unbound, since gorun could not bind it to %s: %v; `--bind-to none` turns binding off",
		rank, what, why)
}
