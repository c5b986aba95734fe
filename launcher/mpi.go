package launcher

import (
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/world"
)

// mpi is what a node needs to know to serve MPI to its ranks.
func (s *session) mpi(n *node) wire.MPI {
	p := s.plan
	m := wire.MPI{PMI: p.MPI.PMI(), PMIx: p.MPI.PMIx(), Node: n.number, NumNodes: len(p.Nodes), NumRanks: len(p.Ranks)}
	switch p.MPI {
	case job.MPIPMI1:
		m.PMIVersion = 1
	case job.MPIPMI2:
		m.PMIVersion = 2
	case job.MPINone:
		m.Why = "--mpi=none"
		return m
	}
	m.Worlds = p.Worlds
	if m.Worlds == nil {
		m.Worlds = []world.World{worldOfAll(p)}
	}
	return m
}

// worldOfAll is all ranks of a plan.
func worldOfAll(p *job.Plan) world.World {
	w := world.World{Name: "gorun-" + p.JobID}
	for _, app := range p.Apps {
		w.Apps = append(w.Apps, world.App{NumRanks: app.NumRanks, Argv: app.Argv, Dir: app.Dir})
	}
	local := map[int]int{}
	for _, r := range p.Ranks {
		host := slices.Index(w.Hosts, p.Nodes[r.Node].Name)
		if host < 0 {
			host = len(w.Hosts)
			w.Hosts = append(w.Hosts, p.Nodes[r.Node].Name)
		}
		w.Ranks = append(w.Ranks, world.Rank{Job: r.Rank, App: r.App, Host: host, Node: r.Node, LocalRank: local[host], NodeRank: local[host]})
		local[host]++
	}
	return w
}

// mpiEvent passes on what ranks of a node did, if they are its ranks.
func (h *head) mpiEvent(n *node, m wire.MPIEvent) {
	at := n.clock.ours(m.At)
	known := func(rank int) bool { return rank >= 0 && rank < len(h.plan.Ranks) }
	switch {
	case m.Kind == wire.MPIAborted && h.has(n, m.Rank):
		h.post(job.MPIAborted{Rank: m.Rank, Code: m.Code, Message: printable.Text(m.Text), At: at})
	case m.Kind == wire.MPIStuck && known(m.Rank):
		waiting := slices.DeleteFunc(m.Waiting, func(rank int) bool { return !known(rank) })
		slices.Sort(waiting)
		if waiting = slices.Compact(waiting); len(waiting) > 0 {
			h.post(job.MPIStuck{Waiting: waiting, Missing: m.Rank, Begun: m.Begun, At: at})
		}
	}
}

func rankMPI(m *wire.RankMPI) *job.RankMPI {
	if m == nil {
		return nil
	}
	return &job.RankMPI{Protocol: printable.Text(m.Protocol), Finalized: m.Finalized}
}

// spawn answers MPI_Comm_spawn.
func (h *head) spawn(n *node, m wire.Spawn) {
	_ = n.link.Send(&wire.Spawned{ID: m.ID, Error: "MPI_Comm_spawn is not supported yet"}) // who reads from a link that has ended knows
}
