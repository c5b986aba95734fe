package launcher

import (
	"cmp"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// mpi is what a node needs to know to serve MPI to its ranks, without the worlds.
func (s *session) mpiConfig(n *node) wire.MPI {
	p := s.plan
	m := wire.MPI{Offered: p.MPI != job.MPINone, Only: p.MPI.Only(), Node: n.number, NumRanks: len(p.Ranks)}
	m.PMIPort = m.Offered && s.spec.PMIPort
	if !m.Offered {
		m.Why = cmp.Or(s.spec.MPIWhy, "--mpi=none says so; leave it out")
	}
	return m
}

// mpiEvent passes on what ranks of a node did, if they are its ranks.
func (h *head) onMPI(n *node, m wire.MPIEvent) {
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
}
