package job

import (
	"cmp"
	"fmt"
	"strings"

	"gorun/env"
	"gorun/env/plan"
	"gorun/placement"
)

// IsTask reports whether this process is one rank of a job, as others are.
func (s *Spec) IsTask() bool { return s.Join != nil && s.Join.Task != nil }

// checkTask refuses a place that cannot be, whoever named it.
func checkTask(s *Task) error {
	switch {
	case s.NumRanks < 1 || s.Rank < 0 || s.Rank >= s.NumRanks:
		return fmt.Errorf("rank %d of %d: ranks are numbered from 0", s.Rank, s.NumRanks)
	case s.LocalRanks < 1 || s.LocalRank < 0 || s.LocalRank >= s.LocalRanks:
		return fmt.Errorf("rank %d is local rank %d of %d: local ranks are numbered from 0", s.Rank, s.LocalRank,
			s.LocalRanks)
	case s.LocalRanks > s.NumRanks:
		ranks := plural(s.NumRanks, "rank")
		return fmt.Errorf("rank %d is local rank %d of %d: the job has %s", s.Rank, s.LocalRank, s.LocalRanks, ranks)
	case s.NumNodes < 1 || s.Node < 0 || s.Node >= s.NumNodes:
		return fmt.Errorf("rank %d is on host %d of %d: hosts are numbered from 0", s.Rank, s.Node, s.NumNodes)
	}
	return nil
}

// oneRank refuses what nobody can have whose processes are one rank each: how many
// there are, and where each is, was decided by whoever started them.
func (s *Spec) oneRank() (wrong []error) {
	j := s.Join
	if j == nil || j.Task == nil {
		return nil
	}
	refuse := func(is bool, what, instead string) {
		if is {
			wrong = append(wrong, fmt.Errorf("%s: each of the %d processes that were started is one rank; %s", what,
				j.Task.NumRanks, instead))
		}
	}
	if err := checkTask(j.Task); err != nil {
		wrong = append(wrong, err)
	}
	const perHost = "start one process per host (srun --ntasks-per-node=1) to have gorun start ranks"
	n, p := s.totalRanks(), s.Place
	refuse(n != 0 && n != j.Task.NumRanks && (n != 1 || len(s.Apps) > 1), fmt.Sprintf("%d ranks", n), perHost)
	refuse(s.PerNode.Kind == CountFixed && s.PerNode.N != 1 || s.PerNode.Kind > CountFixed, "ranks per node", perHost)
	maps := p.MapBy.Object != placement.AnyObject && p.MapBy.Object != placement.BySlot || p.MapBy.PPR > 0
	refuse(maps || p.RankBy != placement.RankBy{} || p.RankFile != nil, "a mapping of ranks",
		"what started them places them (srun --distribution)")
	binds := p.BindTo.Object != placement.AnyObject || len(p.BindTo.Lists) > 0 || p.NUMABinding != ""
	refuse(binds, "binding to CPUs", "what started them binds them (srun --cpu-bind)")
	refuse(p.choosesGPUs() || p.Isolate || p.GPUsPerRank > 0, "a choice of GPUs",
		"what started them gives them GPUs (srun --gpus-per-task)")
	return wrong
}

// seated is the layout of a job whose nodes are processes with one rank each: it is as
// they say. GPUs and CPUs are those that each process has.
func (s *Spec) seated(facts []Facts) (placement.Layout, error) {
	layout := placement.Layout{Ranks: make([]placement.Rank, len(facts)), PerNode: make([]int, len(facts))}
	type place struct{ node, localRank int }
	taken, locals, hosts := make(map[place]int, len(facts)), make(map[int]int), 0
	for rank, f := range facts {
		seat := f.Task
		if seat == nil {
			return layout,
				fmt.Errorf(
					"%s, node %d, does not say which rank it is, as the others do: all of them need the same command line", f.Host,
					rank)
		}
		if err := checkTask(seat); err != nil {
			return layout, fmt.Errorf("%s: %w", f.Host, err)
		}
		if seat.Rank != rank || seat.NumRanks != len(facts) || seat.NumNodes != facts[0].Task.NumNodes {
			return layout, fmt.Errorf("%s says that it is rank %d of %d on %d hosts, and it is rank %d of %d on %d", f.Host,
				seat.Rank, seat.NumRanks, seat.NumNodes, rank, len(facts), facts[0].Task.NumNodes)
		}
		at := place{seat.Node, seat.LocalRank}
		if other, is := taken[at]; is {
			return layout, fmt.Errorf("ranks %d and %d say both that they are local rank %d on host %d", other, rank,
				at.localRank, at.node)
		}
		if n, known := locals[seat.Node]; known && n != seat.LocalRanks {
			return layout, fmt.Errorf("rank %d says that host %d has %d ranks, others that it has %d", rank, seat.Node,
				seat.LocalRanks, n)
		} else if !known {
			hosts++
		}
		taken[at], locals[seat.Node] = rank, seat.LocalRanks
		layout.Ranks[rank], layout.PerNode[rank] = placement.Rank{Node: rank, LocalRank: seat.LocalRank}, 1
	}
	layout.Reason = fmt.Sprintf("%s on %s, one for each process that was started", plural(len(facts), "rank"),
		plural(hosts, "host"))
	return layout, nil
}

// localRanks is the highest number of ranks on a host.
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

// countSharers finds how many ranks use the CPUs of each node: its own, or those of all
// processes on its host that may run on the same. The rank of such a process runs so
// many threads.
func (b *builder) countSharers() []int {
	key := func(f Facts) string { return fmt.Sprint(f.Task.Node, " ", f.Machine.CPUs) }
	same := make(map[string]int)
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

// seat is what ranks hear of where their node's process sits.
func (f *Facts) seat() *plan.Seat {
	if f.Task == nil {
		return nil
	}
	return &plan.Seat{Group: f.Task.Node, NumGroups: f.Task.NumNodes, LocalRanks: f.Task.LocalRanks}
}

// gpuLists are the variables by which ranks are shown GPUs; the first counts.
var gpuLists = []string{env.VarHIPVisibleDevices, env.VarCUDAVisibleDevices}

// visible are the GPUs that ranks of a node see by a variable, and its name; nil: all.
func (b *builder) visible(node int) (devices []string, name string) {
	for _, name := range gpuLists {
		if list, ok := lookup(b.spec.gpuEnviron(b.facts[node]), name); ok && list != "" {
			return strings.Split(list, ","), name
		}
	}
	return nil, ""
}

// ownGPUs says what programs have to know that take the GPU of their local rank
// where each was given one of its own. Where ranks share one there is no choice.
func (b *builder) ownGPUs() (notes []string) {
	if b.spec.VirtualLocalRank {
		return nil
	}
	first := make(map[int]string) // what a rank of each host sees
	for node, f := range b.facts {
		if f.Task == nil {
			continue
		}
		devices, name := b.visible(node)
		if len(devices) != 1 {
			continue
		}
		own := devices[0]
		if gpus := f.Machine.GPUs; len(gpus) == 1 { // where each sees no other, each counts from 0
			own += " " + gpus[0].PCI
		}
		other, seen := first[f.Task.Node]
		if first[f.Task.Node] = own; seen && other != own {
			return []string{fmt.Sprintf(
				"each rank sees one GPU (%s=%s for rank %d): that is its device 0 (cuda:0), not that of its LOCAL_RANK; with "+
					"--virtual-local-rank LOCAL_RANK is 0, too",
				name, devices[0], f.Task.Rank)}
		}
	}
	return nil
}
