package job

import (
	"cmp"
	"fmt"

	"gorun/env/plan"
	"gorun/placement"
)

// IsTask reports whether this process is a task: one rank of a job, started by a resource manager as all others.
func (s *Spec) IsTask() bool { return s.Join != nil && s.Join.Task != nil }

func checkTask(t *Task) error {
	switch {
	case t.NumRanks < 1 || t.Rank < 0 || t.Rank >= t.NumRanks:
		return fmt.Errorf("rank %d of %d: ranks are numbered from 0", t.Rank, t.NumRanks)
	case t.LocalRanks < 1 || t.LocalRank < 0 || t.LocalRank >= t.LocalRanks:
		return fmt.Errorf("rank %d is local rank %d of %d: local ranks are numbered from 0", t.Rank, t.LocalRank,
			t.LocalRanks)
	case t.LocalRanks > t.NumRanks:
		return fmt.Errorf("rank %d is local rank %d of %d: the job has %s", t.Rank, t.LocalRank, t.LocalRanks,
			plural(t.NumRanks, "rank"))
	case t.NumNodes < 1 || t.Node < 0 || t.Node >= t.NumNodes:
		return fmt.Errorf("rank %d is on host %d of %d: hosts are numbered from 0", t.Rank, t.Node, t.NumNodes)
	}
	return nil
}

// taskErrors are about requests that a task cannot have, as the resource manager has decided them.
func (s *Spec) taskErrors() (errs []error) {
	if !s.IsTask() {
		return nil
	}
	t := s.Join.Task
	refuse := func(is bool, what, instead string) {
		if is {
			errs = append(errs, fmt.Errorf("%s: each of the %d started processes is one rank: %s", what,
				t.NumRanks, instead))
		}
	}
	if err := checkTask(t); err != nil {
		errs = append(errs, err)
	}
	const perHost = "start one process per host (srun --ntasks-per-node=1), and gorun starts the ranks"
	n, p := s.totalRanks(), s.Place
	refuse(n != 0 && n != t.NumRanks && (n != 1 || len(s.Apps) > 1), fmt.Sprintf("%d ranks", n), perHost)
	refuse(s.PerNode.Kind == CountFixed && s.PerNode.N != 1 || s.PerNode.Kind > CountFixed, "ranks per node", perHost)
	maps := p.MapBy.Object != placement.AnyObject && p.MapBy.Object != placement.BySlot || p.MapBy.PPR > 0
	refuse(maps || p.RankBy != placement.RankBy{} || p.RankFile != nil, "a mapping of ranks",
		"place them by what started them (srun --distribution)")
	binds := p.BindTo.Object != placement.AnyObject || len(p.BindTo.Lists) > 0 || p.NUMABinding != ""
	refuse(binds, "binding to CPUs", "bind them by what started them (srun --cpu-bind)")
	refuse(p.choosesGPUs() || p.Isolate || p.GPUsPerRank > 0, "a choice of GPUs",
		"give them GPUs by what started them (srun --gpus-per-task)")
	return errs
}

// placeTasks returns the layout of a job whose nodes are tasks, as these report it. Each has the GPUs and CPUs of its
// process.
func (s *Spec) placeTasks(facts []Facts) (placement.Layout, error) {
	layout := placement.Layout{Ranks: make([]placement.Rank, len(facts)), PerNode: make([]int, len(facts))}
	type place struct{ node, localRank int }
	taken, locals := make(map[place]int, len(facts)), make(map[int]int) // locals: ranks by host
	for rank, f := range facts {
		t := f.Task
		if t == nil {
			return layout, fmt.Errorf("%s, node %d, does not know its rank, but the others do: all of them need the "+
				"same command line", f.Host, rank)
		}
		if err := checkTask(t); err != nil {
			return layout, fmt.Errorf("%s: %w", f.Host, err)
		}
		if t.Rank != rank || t.NumRanks != len(facts) || t.NumNodes != facts[0].Task.NumNodes {
			return layout, fmt.Errorf("%s says that it is rank %d of %d on %d hosts, and it is rank %d of %d on %d", f.Host,
				t.Rank, t.NumRanks, t.NumNodes, rank, len(facts), facts[0].Task.NumNodes)
		}
		at := place{t.Node, t.LocalRank}
		if other, is := taken[at]; is {
			return layout, fmt.Errorf("ranks %d and %d say both that they are local rank %d on host %d", other, rank,
				at.localRank, at.node)
		}
		if n := cmp.Or(locals[t.Node], t.LocalRanks); n != t.LocalRanks {
			return layout, fmt.Errorf("rank %d says that host %d has %d ranks, others that it has %d", rank, t.Node,
				t.LocalRanks, n)
		}
		taken[at], locals[t.Node] = rank, t.LocalRanks
		layout.Ranks[rank], layout.PerNode[rank] = placement.Rank{Node: rank, LocalRank: t.LocalRank}, 1
	}
	layout.Reason = fmt.Sprintf("%s on %s, one for each process that was started", plural(len(facts), "rank"),
		plural(len(locals), "host"))
	return layout, nil
}

// localRanks returns the highest number of ranks on a host.
func (b *builder) localRanks() (most int) {
	for node, f := range b.facts {
		n := b.layout.PerNode[node]
		if f.Task != nil {
			n = f.Task.LocalRanks
		}
		most = max(most, n)
	}
	return most
}

// countSharers returns how many ranks use the CPUs of each node: its own, or those of all tasks on its host that may
// run on the same. It sets the threads of tasks.
func (b *builder) countSharers() []int {
	type cpus struct {
		node int
		list string
	}
	key := func(f Facts) cpus { return cpus{f.Task.Node, f.Machine.CPUs.String()} }
	same := make(map[cpus]int)
	for _, f := range b.facts {
		if f.Task != nil {
			same[key(f)]++
		}
	}
	sharers := make([]int, len(b.facts))
	for node, f := range b.facts {
		sharers[node] = len(b.plan.Nodes[node].Ranks)
		if f.Task != nil {
			sharers[node] = same[key(f)]
			b.plan.Ranks[node].threads = cmp.Or(b.spec.Place.CPUsPerRank, placement.ThreadsPerRank(f.Machine, sharers[node]))
		}
	}
	return sharers
}

// task returns a node's task for the environment of its rank; nil outside tasks.
func (f *Facts) task() *plan.Task {
	if f.Task == nil {
		return nil
	}
	return &plan.Task{Group: f.Task.Node, NumGroups: f.Task.NumNodes, LocalRanks: f.Task.LocalRanks}
}
