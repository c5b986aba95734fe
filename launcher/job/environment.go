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

// setEnvironment gives ranks and nodes their environment.
func (b *builder) setEnvironment() error {
	p := b.plan
	in := plan.Inputs{
		Inherited: b.spec.Environ, Exports: b.spec.Exports, LenientExports: b.spec.LenientExports,
		ExportsOnly: b.spec.ExportsOnly, ExportAll: b.spec.ExportAll, ExportUnlisted: b.spec.ExportUnlisted,
		Job: p.JobID, RunID: p.RunID, Role: p.Role,
		SignalsToHandle: b.spec.SignalsToHandle, Store: p.Store,
		MPI: b.mpi(), Engine: b.spec.StartedByEngine(), SlurmNodes: b.slurmNodes(), Restarts: b.ids.Restarts,
		MaxRestarts: b.spec.Restarts.Max, VirtualLocalRank: b.spec.VirtualLocalRank,
		Tune: b.spec.Tune, Study: b.spec.Study, RASAddr: b.rasAddr(), Dumps: AtStart, JoinNodes: HostRanges,
	}
	for node := range p.Nodes {
		in.Nodes = append(in.Nodes, b.nodeInputs(node))
	}
	for i := range p.Ranks {
		r := &p.Ranks[i]
		in.Ranks = append(in.Ranks, b.rankInputs(r, in.Nodes[r.Node]))
	}
	b.showGPUs(&in)
	b.placeInWorlds(in.Ranks)
	e, err := plan.Build(in)
	if err != nil {
		return err
	}
	p.Common, p.Removed, p.Withheld, p.Left, p.Conf = e.Common, e.Removed, e.Withheld, e.Left, e.Conf
	for node, own := range e.Nodes {
		p.Nodes[node].Env = own
	}
	p.Warnings = append(p.Warnings, e.Notes...)
	for i := range p.Ranks {
		p.Ranks[i].Env = e.Ranks[i]
	}
	return nil
}

// StudyNetworks returns the values of Study.Network.
func StudyNetworks() []string { return slices.Clone(plan.StudyNetworks) }

// rasAddr is where NCCL's processes of the job listen for RAS, on every node.
func (b *builder) rasAddr() string {
	switch {
	case b.opened.RAS > 0:
		return fmt.Sprintf("localhost:%d", b.opened.RAS)
	case b.ids.Job == AtStart:
		return AtStart
	}
	return ""
}

// nodeInputs divides a node's usable CPUs among its ranks.
func (b *builder) nodeInputs(node int) plan.Node {
	f, ranks := &b.facts[node], b.sharers[node]
	m := f.Machine
	n := plan.Node{
		Threads: placement.ThreadsPerRank(m, ranks), Remote: f.Remote, Joined: f.Joined, Environ: f.Environ,
		Endpoint: f.Endpoint,
		Crowded:  b.crowded(node), Part: b.plan.partOf(node), Task: f.task(),
		Role: b.plan.Nodes[node].Role,
		Name: b.plan.Nodes[node].Name, Host: f.NCCL, RDMA: f.RDMA, GPUs: m.GPUs,
	}
	if b.severalNodes() {
		n.KeyFile = AtStart
	}
	switch cpus := b.spec.Place.CPUsPerRank; {
	case f.Task != nil && cpus > 0:
		n.Threads, n.Why = b.plan.Ranks[node].threads, plural(cpus, "CPU")+" for each rank, as requested"
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
	in := plan.Rank{
		Node: r.Node, LocalRank: r.LocalRank, Dir: b.plan.Apps[r.App].Dir, GoThreads: b.goThreads(r),
		Exports: b.spec.Apps[r.App].Exports,
	}
	if b.plan.ErrorFiles() {
		in.ErrorFile = AtStart
	}
	switch cpus := b.spec.CPUsPerRank; {
	case cpus > 0 && cpus < r.threads:
		in.Threads, in.Why = cpus, b.spec.CPUsFrom
	case r.CPUs.Len() > 0:
		in.Threads, in.Why = r.threads, b.threadsWhy(r, node)
	}
	if b.spec.VirtualLocalRank && !b.spec.isolates() {
		in.Device = r.GPU
	}
	return in
}

// threadsWhy returns the reason for a bound rank's number of threads.
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

// goThreads returns GOMAXPROCS for ranks that share CPUs or a quota, of which Go knows nothing: it counts the CPUs
// that it may run on and, from 1.25 on, follows the whole quota. With one thread Go would take that away from every C
// or system call of more than 20 µs and wake another one, so two are the least.
func (b *builder) goThreads(r *Rank) int {
	cpus := r.CPUs.Len()
	if cpus == 0 {
		cpus = b.facts[r.Node].Machine.CPUs.Len()
	}
	threads := r.threads
	if limit := b.spec.CPUsPerRank; limit > 0 {
		threads = min(threads, limit)
	} else if b.sharers[r.Node] < 2 {
		return 0
	}
	if threads >= cpus {
		return 0
	}
	return max(2, threads)
}

// slurmNodes returns the plan's nodes as a node list of Slurm; "" unless all of them are inside one Slurm job.
func (b *builder) slurmNodes() string {
	var names []string
	seen := make(map[string]bool)
	for node, f := range b.facts {
		environ := b.spec.Environ
		if f.Joined || f.Remote && !b.spec.StartedByEngine() {
			environ = f.Environ
		}
		if !plan.InSlurm(environ) {
			return ""
		}
		if b.spec.StartedByEngine() {
			environ = f.Environ
		}
		if name := cmp.Or(plan.SlurmNode(environ), b.plan.Nodes[node].Name); !seen[name] { // tasks may share one
			seen[name], names = true, append(names, name)
		}
	}
	list := hosts.NodeList(names)
	if back, err := hosts.Expand(list); err != nil || !slices.Equal(back, names) { // the first one has rank 0
		return strings.Join(names, ",")
	}
	return list
}

// HealthPort is where the user wants nodes to answer liveness probes; see [plan.HealthPort].
func (s *Spec) HealthPort() string { return plan.HealthPort(s.Environ, s.Exports) }

// RequestedStore returns where the environment or -x, and not an outer launcher, puts the store; see
// [plan.StoreRequest]. It considers the exports of all programs, whose ranks meet there, and the first one counts.
func (s *Spec) RequestedStore() (addr string, port int, origin string, err error) {
	all, inherited := s.Exports, s.Environ
	if s.Store.IgnoreEnviron {
		inherited = nil
	}
	for _, app := range slices.Backward(s.Apps) { // plan.StoreRequest takes the last of several
		all = append(all, app.Exports...)
	}
	return plan.StoreRequest(inherited, all)
}
