package launcher

import (
	"cmp"
	"strconv"

	"gorun/env/plan"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// startMessages tell each node what concerns it. What all are told of all ranks is encoded once.
func (s *session) startMessages() func(n *node) *wire.Start {
	worlds := wire.EncodeWorlds(s.plan.Worlds)
	return func(n *node) *wire.Start {
		m := s.startMessage(n)
		if m.MPI.Offered {
			m.MPI.EncodedWorlds = worlds
		}
		return m
	}
}

// startMessage tells a node everything that was decided about it, but for who the ranks of others are.
func (s *session) startMessage(n *node) *wire.Start {
	p := s.plan
	m := &wire.Start{
		JobID: p.MarkerOf(n.number), Common: entries(p.CommonOf(n.number)), ErrorFiles: p.ErrorFiles(),
		Window: s.window(),
		Stdio:  s.stdio(len(p.Ranks)), TorchHint: s.torchHint(), Attempt: p.Attempt, HangTimeout: s.spec.HangTimeout,
		HangStop:    s.spec.OnHang == job.HangStop,
		StoreReport: s.spec.Store.ReportAfter(), Cgroup: s.wantsCgroup(), Ranks: s.rankRows(n),
	}
	if len(s.active) > 1 {
		m.Key = s.key
		m.HangTimeout = 0 // the head sees all of them
	}
	m.MPI = s.mpiConfig(n)
	m.Apps = p.AppsOf(n.number)
	if p.Logs != nil && (len(s.active) < 2 || !s.spec.Output.LogsToHead) {
		m.Logs = &wire.Logs{
			Logs: *p.LogsOf(n.number), Role: p.RoleOf(n.number), Template: s.spec.Output.Template,
			Show: s.spec.Output.ShowLocalRanks, Digits: len(strconv.Itoa(len(p.Ranks) - 1)),
			Host: p.Nodes[n.number].Name, Node: n.number,
		}
	}
	return m
}

// rows are a node's ranks.
func (s *session) rankRows(n *node) []wire.Row {
	ranks := s.plan.Nodes[n.number].Ranks
	rows := make([]wire.Row, len(ranks))
	for i, rank := range ranks {
		r := &s.plan.Ranks[rank]
		rows[i] = wire.Row{Process: r.Process, Env: entries(r.Env)}
	}
	return rows
}

// window is how much of each output stream may be under way from one node, in bytes:
// with many nodes less, for all of it may lie here while nobody reads.
func (s *session) window() int { return min(maxWindow, max(allWindow/len(s.active), minWindow)) }

// wantsCgroup: Slurm knows the processes of a step by its own cgroups and does not
// look below them.
func (s *session) wantsCgroup() bool {
	_, slurm := lookup(s.spec.Environ, "SLURM_JOB_ID")
	return !slurm && !s.spec.NoCgroup
}

// torchHint: in auto mode nobody can know whether an imported module hosts a
// store of its own.
func (s *session) torchHint() bool { return s.plan.Store.Mode == "gorun" }

// assignments are variables as processes get them; those that only an agent knows it adds
// itself.
func entries(vars []plan.Variable) []string {
	list := make([]string, 0, len(vars))
	for _, v := range vars {
		if v.Value != job.AtStart {
			list = append(list, v.Entry())
		}
	}
	return list
}

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
