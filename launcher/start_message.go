package launcher

import (
	"cmp"
	"strconv"
	"strings"

	"gorun/env/plan"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// startMessage tells a node what was decided about it. worlds is the plan's encoded worlds.
func (h *head) startMessage(n *node, worlds []byte) *wire.Start {
	p := h.plan.Load()
	m := &wire.Start{
		JobID: p.MarkerOf(n.number), Attempt: p.Attempt, Apps: p.AppsOf(n.number), Ranks: h.rankRows(n),
		Common: entries(p.CommonOf(n.number)), ErrorFiles: p.ErrorFiles(), Stdio: h.stdio, Window: h.window(),
		TorchHint:   p.Store.Mode == "gorun", // an imported module may start a store that gorun does not know of
		StoreReport: h.spec.Store.ReportAfter(), Cgroup: h.wantsCgroup(), MPI: h.mpiConfig(n, worlds),
	}
	for _, v := range p.CommonOf(n.number) {
		if v.Value == job.AtStart && strings.HasPrefix(v.Name, "TORCH_") {
			m.Dumps = append(m.Dumps, v.Name)
		}
	}
	if len(h.nodes) > 1 {
		m.Key = h.key
	}
	if p.Logs != nil && (len(h.nodes) < 2 || !h.spec.Output.LogsToHead) {
		m.Logs = &wire.Logs{
			Logs: *p.LogsOf(n.number), Role: p.RoleOf(n.number), Template: h.spec.Output.Template,
			Show: h.spec.Output.ShowLocalRanks, Digits: len(strconv.Itoa(len(p.Ranks) - 1)),
			Host: p.Nodes[n.number].Name, Node: n.number,
		}
	}
	return m
}

func (h *head) rankRows(n *node) (rows []wire.Row) {
	p := h.plan.Load()
	for _, rank := range p.Nodes[n.number].Ranks {
		rows = append(rows, wire.Row{Process: p.Ranks[rank].Process, Env: entries(p.Ranks[rank].Env)})
	}
	return rows
}

// window returns how many bytes of each output stream may be under way from one node. It shrinks
// with many nodes: all of it may be held here while nobody reads.
func (h *head) window() int { return min(maxWindow, max(allWindow/len(h.nodes), minWindow)) }

// wantsCgroup is false in a Slurm step: Slurm finds its processes by its own cgroups and does not
// look below them.
func (h *head) wantsCgroup() bool {
	_, slurm := lookup(h.spec.Environ, "SLURM_JOB_ID")
	return !slurm && !h.spec.NoCgroup
}

// entries returns the variables as NAME=VALUE, without those that the agent adds.
func entries(vars []plan.Variable) []string {
	list := make([]string, 0, len(vars))
	for _, v := range vars {
		if v.Value != job.AtStart {
			list = append(list, v.Entry())
		}
	}
	return list
}

// mpiConfig is what a node needs to serve MPI to its ranks.
func (h *head) mpiConfig(n *node, worlds []byte) wire.MPI {
	p := h.plan.Load()
	if p.MPI == job.MPINone {
		return wire.MPI{
			Node: n.number, NumRanks: len(p.Ranks),
			Only: p.MPI.Only(), Why: cmp.Or(h.spec.MPIWhy, "leave out --mpi=none"),
		}
	}
	return wire.MPI{
		Offered: true, Only: p.MPI.Only(), Node: n.number, NumRanks: len(p.Ranks), PMIPort: h.spec.PMIPort,
		EncodedWorlds: worlds,
	}
}
