package agent

import (
	"fmt"
	"sync"

	"gorun/launcher/internal/process"
)

// unbound tells once of each kind that the kernel refused to bind ranks: in a
// container all of them meet the same filter.
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
	return fmt.Sprintf("rank %d runs, but is not bound to %s: %v; --bind-to none does not try", rank, what, why)
}
