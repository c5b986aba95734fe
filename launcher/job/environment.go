package job

import (
	"fmt"

	"gorun/env/plan"
	"gorun/placement"
)

// environment decides what each rank finds in its environment.
func (b *builder) environment() error {
	in := plan.Inputs{
		Inherited: b.spec.Environ, Exports: b.spec.exports(), Job: b.plan.JobID, RunID: b.plan.RunID, Role: b.plan.Role,
		SignalsToHandle: b.spec.SignalsToHandle, StoreAtRank0: b.plan.Store.Mode == modeRank0,
		MasterAddr: b.plan.Store.Addr, MasterPort: b.plan.Store.Port, JobStore: b.plan.Store.Own,
		Attempt: b.ids.Attempt, MaxRestarts: b.spec.Restarts.Max, VirtualLocalRank: b.spec.VirtualLocalRank,
	}
	for node := range b.plan.Nodes {
		in.Nodes = append(in.Nodes, b.threads(node))
	}
	for i := range b.plan.Ranks {
		in.Ranks = append(in.Ranks, b.rankInputs(&b.plan.Ranks[i]))
	}
	b.showGPUs(&in)
	environment, err := plan.Build(in)
	if err != nil {
		return err
	}
	b.plan.Common, b.plan.Removed = environment.Common, environment.Removed
	b.plan.Notes = append(b.plan.Notes, environment.Notes...)
	for i := range b.plan.Ranks {
		b.plan.Ranks[i].Env = environment.Ranks[i]
	}
	return nil
}

// threads divides a node's usable CPUs among its ranks.
func (b *builder) threads(node int) plan.Node {
	m, ranks := b.facts[node].Machine, len(b.plan.Nodes[node].Ranks)
	n := plan.Node{Threads: placement.ThreadsPerRank(m, ranks)}
	if n.Threads > 0 {
		n.Why = m.CPUReason()
		if ranks > 1 {
			n.Why += fmt.Sprintf(" ÷ %d ranks", ranks)
		}
	}
	return n
}

func (b *builder) rankInputs(r *Rank) plan.Rank {
	in := plan.Rank{Node: r.Node, LocalRank: r.LocalRank, ErrorFile: r.ErrorFile, Dir: b.plan.Apps[r.App].Dir}
	if r.CPUs.Len() > 0 {
		in.Threads, in.Why = r.threads, b.threadsWhy(r)
	}
	in.GoThreads = b.goThreads(r)
	if b.spec.VirtualLocalRank && !b.spec.isolates() {
		in.Device = r.GPU
	}
	return in
}

// threadsWhy says how the number of a bound rank's threads came about.
func (b *builder) threadsWhy(r *Rank) string {
	bound := "bound to " + plural(r.CPUs.Len(), "CPU")
	node := b.threads(r.Node)
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
	if len(b.plan.Nodes[r.Node].Ranks) < 2 || r.threads >= cpus {
		return 0
	}
	return max(2, r.threads)
}

func (s *Spec) exports() []plan.Export {
	list := make([]plan.Export, len(s.Exports))
	for i, e := range s.Exports {
		list[i] = plan.Export(e)
	}
	return list
}

// Wish is where the user, and no outer launcher, wants the store to listen by
// the environment or -x; see [plan.Wish].
func (s *Spec) Wish() (addr string, port int, origin string, err error) {
	return plan.Wish(s.Environ, s.exports())
}
