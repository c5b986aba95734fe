package launcher

import (
	"cmp"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// mpi is what a node needs to know to serve MPI to its ranks, without the worlds.
func (s *session) mpi(n *node) wire.MPI {
	p := s.plan
	m := wire.MPI{Offered: p.MPI != job.MPINone, Only: p.MPI.Only(), Node: n.number, NumRanks: len(p.Ranks)}
	m.PMIPort = m.Offered && s.spec.PMIPort
	if !m.Offered {
		m.Why = cmp.Or(s.spec.MPIWhy, "--mpi=none says so; leave it out")
	}
	return m
}

// mpiEvent passes on what ranks of a node did, if they are its ranks.
func (h *head) mpiEvent(n *node, m wire.MPIEvent) {
	at := h.at(n, m.At)
	known := func(rank int) bool { return rank >= 0 && rank < len(h.plan.Load().Ranks) }
	switch {
	case m.Kind == wire.MPIAborted && h.has(n, m.Rank):
		h.post(job.MPIAborted{Rank: m.Rank, Code: m.Code, Message: printable.Text(m.Text), At: at})
	case m.Kind == wire.MPIFailed && h.has(n, m.Rank):
		h.post(job.MPIAborted{Rank: m.Rank, Why: printable.Text(m.Text), At: at})
	case m.Kind == wire.MPIStuck && known(m.Rank):
		waiting := slices.DeleteFunc(m.Waiting, func(rank int) bool { return !known(rank) })
		slices.Sort(waiting)
		if waiting = slices.Compact(waiting); slices.ContainsFunc(waiting, func(rank int) bool { return h.has(n, rank) }) {
			h.post(job.MPIStuck{Waiting: waiting, Missing: m.Rank, Begun: m.Begun, Why: printable.Text(m.Text), At: at})
		}
	}
}
