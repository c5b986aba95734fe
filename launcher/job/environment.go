package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/env/plan"
	"gorun/launcher/hosts"
	"gorun/placement"
)

// environment decides what each rank finds in its environment.
func (b *builder) environment() (plan.Environment, error) {
	in := plan.Inputs{
		Inherited: b.spec.Environ, Exports: b.spec.Exports, LenientExports: b.spec.LenientExports,
		ExportsOnly: b.spec.ExportsOnly, ExportAll: b.spec.ExportAll, ExportUnlisted: b.spec.ExportUnlisted,
		Job: b.plan.JobID, RunID: b.plan.RunID, Role: b.plan.Role,
		SignalsToHandle: b.spec.SignalsToHandle, Store: b.plan.Store,
		MPI: b.mpi(), Engine: b.spec.StartedByEngine(), SlurmNodes: b.slurmNodes(), Attempt: b.ids.Attempt,
		MaxRestarts: b.spec.Restarts.Max, VirtualLocalRank: b.spec.VirtualLocalRank,
		Tune: b.spec.Tune, Study: b.spec.Study, RASAddr: b.rasAddr(), Fold: HostRanges,
	}
	for node := range b.plan.Nodes {
		in.Nodes = append(in.Nodes, b.nodeInputs(node))
	}
	in.Ranks = make([]plan.Rank, len(b.plan.Ranks))
	own := make([][]plan.Export, len(b.spec.Apps))
	for i, app := range b.spec.Apps {
		own[i] = app.Exports
	}
	for i := range b.plan.Ranks {
		r := &b.plan.Ranks[i]
		in.Ranks[i] = b.rankInputs(r, in.Nodes[r.Node])
		in.Ranks[i].Exports = own[r.App]
	}
	b.showGPUs(&in)
	b.placeInWorlds(in.Ranks)
	return plan.Build(in)
}

// setEnvironment gives ranks and nodes what they find in their environment.
func (p *Plan) setEnvironment(e plan.Environment) {
	p.Common, p.Removed, p.Withheld, p.Left, p.Conf = e.Common, e.Removed, e.Withheld, e.Left, e.Conf
	for node, own := range e.Nodes {
		p.Nodes[node].Env = own
	}
	p.Warnings = append(p.Warnings, e.Notes...)
	for i := range p.Ranks {
		p.Ranks[i].Env = e.Ranks[i]
	}
}

// StudyNetworks are what Study's Network may be.
func StudyNetworks() []string { return slices.Clone(plan.StudyNetworks) }

// rasAddr is where NCCL's processes of the job answer questions, on every node.
func (b *builder) rasAddr() string {
	switch {
	case b.opened.RAS > 0:
		return fmt.Sprintf("localhost:%d", b.opened.RAS)
	case b.ids.Job == AtStart:
		return AtStart
	}
	return ""
}

// nodeInputs divides a node's usable CPUs among its ranks, and says what they
// inherit from where.
func (b *builder) nodeInputs(node int) plan.Node {
	f, ranks := &b.facts[node], b.sharers[node]
	m := f.Machine
	n := plan.Node{
		Threads: placement.ThreadsPerRank(m, ranks), Remote: f.Remote, Joined: f.Joined, Environ: f.Environ,
		Interface: f.Interface, Address: f.Address,
		Crowded: b.crowded(node), KeyFile: b.keyFile(), Part: b.plan.partOf(node), Seat: f.seat(),
		Role: b.plan.Nodes[node].Role,
		Name: b.plan.Nodes[node].Name, Mbps: f.Mbps, Host: f.NCCL, RDMA: f.RDMA, GPUs: m.GPUs,
	}
	switch wish := b.spec.Place.CPUsPerRank; {
	case f.Task != nil && wish > 0:
		n.Threads, n.Why = b.plan.Ranks[node].threads, plural(wish, "CPU")+" for each rank, as was wished"
	case n.Threads > 0:
		n.Why = m.CPUReason()
		if ranks > 1 {
			n.Why += fmt.Sprintf(" ÷ %d ranks", ranks)
		}
	}
	return n
}

// crowded reports whether a node has more ranks than CPUs for them.
func (b *builder) crowded(node int) bool {
	m := b.facts[node].Machine
	cpus := float64(m.CPUs.Len())
	if m.Quota > 0 {
		cpus = min(cpus, m.Quota)
	}
	return cpus > 0 && float64(b.sharers[node]) > cpus
}

func (b *builder) rankInputs(r *Rank, node plan.Node) plan.Rank {
	in := plan.Rank{Node: r.Node, LocalRank: r.LocalRank, ErrorFile: b.errorFile(), Dir: b.plan.Apps[r.App].Dir}
	switch wish := b.spec.CPUsPerRank; {
	case wish > 0 && wish < r.threads:
		in.Threads, in.Why = wish, b.spec.CPUsFrom
	case r.CPUs.Len() > 0:
		in.Threads, in.Why = r.threads, b.threadsWhy(r, node)
	}
	in.GoThreads = b.goThreads(r)
	if b.spec.VirtualLocalRank && !b.spec.isolates() {
		in.Device = r.GPU
	}
	return in
}

// threadsWhy says how the number of a bound rank's threads came about.
func (b *builder) threadsWhy(r *Rank, node plan.Node) string {
	bound := "bound to " + plural(r.CPUs.Len(), "CPU")
	switch {
	case r.threads >= r.CPUs.Len():
		return bound
	case b.facts[r.Node].Machine.Quota > 0 && r.threads == node.Threads:
		return node.Why
	}
	return bound + ", with other ranks"
}

// goThreads is GOMAXPROCS for ranks that would get into each other's way without.
// Go counts the CPUs that it may run on and, from 1.25 on, follows a quota even when
// that changes. It knows nothing of other ranks which run on the same CPUs, or
// have a part of the same quota. With one thread it would take that away from every C
// and system call of more than 20 µs, and wake another one for it: two are the least.
func (b *builder) goThreads(r *Rank) int {
	cpus := r.CPUs.Len()
	if cpus == 0 {
		cpus = b.facts[r.Node].Machine.CPUs.Len()
	}
	threads, wish := r.threads, b.spec.CPUsPerRank
	if wish > 0 {
		threads = min(threads, wish)
	} else if b.sharers[r.Node] < 2 {
		return 0
	}
	if threads >= cpus {
		return 0
	}
	return max(2, threads)
}

// slurmNodes are the plan's nodes as Slurm writes a list; "" where not all of them are
// inside a job of Slurm's.
func (b *builder) slurmNodes() string {
	var names []string
	seen := make(map[string]bool)
	for node, f := range b.facts {
		own := b.spec.Environ
		if f.Joined || f.Remote && !b.spec.StartedByEngine() {
			own = f.Environ
		}
		if !plan.InSlurm(own) {
			return ""
		}
		if b.spec.StartedByEngine() {
			own = f.Environ
		}
		if name := cmp.Or(plan.SlurmNode(own), b.plan.Nodes[node].Name); !seen[name] { // several processes may be on one
			seen[name], names = true, append(names, name)
		}
	}
	folded := hosts.Fold(names)
	if back, err := hosts.Expand(folded); err != nil || !slices.Equal(back, names) { // the first is that of rank 0
		return strings.Join(names, ",")
	}
	return folded
}

// HealthPort is where the user wants nodes to answer liveness probes; see [plan.HealthPort].
func (s *Spec) HealthPort() string { return plan.HealthPort(s.Environ, s.Exports) }

// RequestedStore returns where the user, and no outer launcher, wants the store to listen by
// the environment or -x; see [plan.Wish].
//
// Ranks of all programs meet there, whichever of them -x or -env is for; the first counts.
func (s *Spec) RequestedStore() (addr string, port int, origin string, err error) {
	all := s.Exports // of several for a name the last counts
	for _, app := range slices.Backward(s.Apps) {
		all = append(all, app.Exports...)
	}
	return plan.Wish(s.Environ, all)
}
