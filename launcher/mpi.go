package launcher

import (
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// onMPI checks that events are about the node's ranks.
func (h *head) onMPI(n *node, m wire.MPIEvent) error {
	at := h.localTime(n, m.At)
	known := func(rank int) bool { return rank >= 0 && rank < len(h.plan.Load().Ranks) }
	if a := m.Abort; a != nil && h.hasRank(n, m.Rank) {
		a.Message, a.Why = printable.Text(a.Message), printable.Text(a.Why)
		h.post(job.MPIAborted{Rank: m.Rank, MPIAbort: *a, At: at})
	}
	if w := m.Stuck; w != nil && known(w.Missing) {
		w.Waiting = slices.DeleteFunc(w.Waiting, func(rank int) bool { return !known(rank) })
		slices.Sort(w.Waiting)
		w.Waiting, w.Why = slices.Compact(w.Waiting), printable.Text(w.Why)
		if slices.ContainsFunc(w.Waiting, func(rank int) bool { return h.hasRank(n, rank) }) {
			h.post(job.MPIStuck{MPIStuck: *w, At: at})
		}
	}
	return nil
}
