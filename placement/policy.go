package placement

import (
	"errors"
	"fmt"
)

// A policy assigns n ranks of a node. GPUs are those that the ranks may use, in order.
type policy func(t *tree, n int, gpus []GPU) (mapping, error)

// policy returns the policy that the options select, and the mapping that ranks are numbered by.
func (r Request) policy() (policy, MapBy) {
	m := r.MapBy
	switch {
	case r.NUMABinding != "":
		return r.numaBinding, m
	case r.CPUsPerRank > 0 && m.Object == AnyObject && !r.BindTo.OverloadAllowed:
		return r.cpusPerRank, m // also with --bind-to core: its CPUs are whole cores
	case r.BindTo.none() && m.Object == AnyObject:
		return r.unbound, m
	case r.BindTo.Given && m.Object == AnyObject && (r.BindTo.Count > 1 || len(r.BindTo.Lists) > 0):
		m.Object = BySlot
	case r.BindTo.Given && m.Object == AnyObject:
		m.Object = r.BindTo.Object
	}
	switch {
	case r.CPUsPerRank > 0 && m.Object == AnyObject:
		return r.cpusPerRank, m
	case m.Object == AnyObject, !m.binds() && !r.BindTo.Given && r.CPUsPerRank == 0:
		return r.share, m
	}
	return func(t *tree, n int, gpus []GPU) (mapping, error) { return r.byObject(t, m, n, gpus) }, m
}

// binds reports whether the mapping implies a binding. Slots and nodes do not.
func (m MapBy) binds() bool { return m.PE > 0 || m.Object != BySlot && m.Object != ByNode }

// checkConflicts rejects options that contradict each other.
func (r Request) checkConflicts() error {
	mapping := r.MapBy.Object != AnyObject || r.BindTo.Given
	switch {
	case r.NUMABinding != "" && (mapping || r.CPUsPerRank > 0):
		return fmt.Errorf(
			"--numa-binding %s contradicts --map-by, --bind-to and --cpus-per-rank: use one or the others", r.NUMABinding)
	case r.RankFile != nil && (mapping || r.CPUsPerRank > 0 || r.NUMABinding != "" || r.RankBy != RankBy{}):
		return errors.New("a rank file contradicts --map-by, --bind-to, --rank-by, --numa-binding and " +
			"--cpus-per-rank: use one or the others")
	case r.CPUsPerRank > 0 && r.MapBy.PE > 0:
		return fmt.Errorf("--cpus-per-rank %d and %s both set the CPUs of a rank: remove one", r.CPUsPerRank, r.MapBy)
	case r.CPUsPerRank > 0 && r.BindTo.Given && (r.BindTo.Object != ByCore || r.BindTo.Count > 0):
		return fmt.Errorf("--cpus-per-rank %d binds ranks to cores and contradicts %s", r.CPUsPerRank, r.BindTo)
	case r.GPUsPerRank > 1 && r.MapBy.PPR > 0 && r.MapBy.Object == ByGPU:
		return fmt.Errorf("%s and --gpus-per-rank %d both set the GPUs of a rank; --map-by gpu --gpus-per-rank %[2]d "+
			"gives each its own", r.MapBy, r.GPUsPerRank)
	case r.CPUsPerRank < 0:
		return fmt.Errorf("--cpus-per-rank %d: request at least one CPU", r.CPUsPerRank)
	case r.GPUsPerRank < 0:
		return fmt.Errorf("--gpus-per-rank %d: request at least one GPU, or leave the option out", r.GPUsPerRank)
	}
	return nil
}

// unassigned makes assignments without CPUs, with the GPUs of their local ranks.
func (r Request) unassigned(t *tree, n int, gpus []GPU) mapping {
	on := mapping{tree: t, assignments: make([]assignment, n), paired: len(gpus) > 0}
	for local := range on.assignments {
		on.assignments[local] = assignment{object: -1, gpus: r.gpusOf(local, gpus)}
		if t != nil {
			on.assignments[local].locale = t.all
		}
	}
	return on
}

// unbound leaves the choice of CPUs to the kernel.
func (r Request) unbound(t *tree, n int, gpus []GPU) (mapping, error) {
	on := r.unassigned(t, n, gpus)
	on.explain("not bound: " + r.BindTo.String())
	return on, nil
}

// share is gorun's own policy. A single rank gets the whole machine. With GPUs, each rank gets its
// share of the cores of its GPU's NUMA node; without, an equal share of all cores. Ranks are not
// bound if there are more of them than cores.
func (r Request) share(t *tree, n int, gpus []GPU) (mapping, error) {
	on := r.unassigned(t, n, gpus)
	switch {
	case n == 1:
		on.explain("not bound: the only rank of its node")
		return on, nil
	case n > len(t.cores):
		on.leaveUnbound(n)
		return on, nil
	}
	nodes, known := on.gpuNodes()
	if known {
		on.bindNear(nodes, 0)
		return on, nil
	}
	on.bindShares(divide(t.cores, n, 0))
	return on, nil
}

// explain sets the reason of all assignments.
func (on *mapping) explain(reason string) {
	for i := range on.assignments {
		on.assignments[i].reason = reason
	}
}

// leaveUnbound binds no rank because there are more ranks than cores.
func (on *mapping) leaveUnbound(n int) {
	for i := range on.assignments {
		on.assignments[i].cpus = CPUSet{}
	}
	cores := plural(len(on.tree.cores), "core")
	if all := on.tree.machine.CPUs.Len(); n > all {
		cores = plural(all, "CPU")
	}
	on.explain(fmt.Sprintf("not bound: %s on %s", plural(n, "rank"), cores))
	on.tree.note(oversubscribed(plural(n, "rank"), cores))
}

// gpuNodes returns the NUMA nodes of each assignment's GPUs, and whether any is known.
func (on *mapping) gpuNodes() (nodes [][]int, known bool) {
	for _, s := range on.assignments {
		near := on.tree.gpuNodes(s.gpus)
		nodes = append(nodes, near)
		known = known || len(near) > 0
	}
	return nodes, known
}

// bindNear binds each assignment to its share of the cores of its NUMA nodes.
func (on *mapping) bindNear(nodes [][]int, exact int) {
	for i, share := range on.tree.nearNodes(nodes, exact) {
		s := &on.assignments[i]
		s.cpus, s.locale = share, share
		s.reason = on.tree.describe(share)
		if len(nodes[i]) > 0 && len(s.gpus) > 0 {
			s.reason += ", near GPU " + indexList(s.gpus)
		}
	}
}

func (on *mapping) bindShares(shares [][]*core) {
	for i, share := range shares {
		set := cpusOf(share)
		on.assignments[i].cpus, on.assignments[i].locale, on.assignments[i].reason = set, set, on.tree.describe(set)
	}
}

// describe summarizes a set of CPUs: "4 cores of NUMA node 1".
func (t *tree) describe(set CPUSet) string {
	cores := t.coresIn(set)
	var nodes CPUSet
	for _, c := range cores {
		if c.Node >= 0 {
			nodes = nodes.With(c.Node)
		}
	}
	text := plural(len(cores), "core")
	switch nodes.Len() {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s of NUMA node %s", text, nodes)
	}
	return fmt.Sprintf("%s of NUMA nodes %s", text, nodes)
}

// cpusPerRank gives each rank the same number of CPUs, in whole cores.
func (r Request) cpusPerRank(t *tree, n int, gpus []GPU) (mapping, error) {
	on := r.unassigned(t, n, gpus)
	each := t.coresFor(r.CPUsPerRank)
	if n*each > len(t.cores) {
		return on, fmt.Errorf("--cpus-per-rank %d: %s × %d are %s, %s has %d (%s)", r.CPUsPerRank, plural(n, "rank"),
			each, plural(n*each, "core"), t.name, len(t.cores), plural(len(t.cpus), "CPU"))
	}
	if nodes, known := on.gpuNodes(); known {
		on.bindNear(nodes, each)
		return on, nil
	}
	on.bindShares(divide(t.cores, n, each))
	return on, nil
}

// coresFor returns the smallest number of cores that have the given number of CPUs.
func (t *tree) coresFor(cpus int) int {
	threads := 0
	for _, c := range t.cores {
		if n := c.cpus.Len(); threads == 0 || n < threads {
			threads = n
		}
	}
	return (cpus + threads - 1) / max(1, threads)
}

// byObject maps and binds ranks according to --map-by and --bind-to.
func (r Request) byObject(t *tree, m MapBy, n int, gpus []GPU) (mapping, error) {
	switch {
	case r.CPUsPerRank > 0 && m.Object == ByThread && m.PPR == 0: // pe counts hardware threads here
		m.PE = r.CPUsPerRank
	case r.CPUsPerRank > 0:
		m.PE = t.coresFor(r.CPUsPerRank)
	}
	on, err := t.mapTo(m, n, gpus, r.GPUsPerRank)
	if err != nil {
		return on, err
	}
	switch {
	case r.BindTo.none():
		on.explain(on.assignments[0].reason + "; not bound: " + r.BindTo.String())
	case r.BindTo.Given || m.PE > 0 || m.Object.part() && (m.PPR == 0 || m.Object == ByThread):
		err = t.bind(&on, m, r.BindTo)
	default:
		err = on.shareObjects(m)
	}
	var full errFull
	switch {
	case errors.As(err, &full):
		on.leaveUnbound(n)
		err = nil
	case err != nil && r.CPUsPerRank > 0: // the error would name pe, which the user did not write
		err = fmt.Errorf("--cpus-per-rank %d: %w", r.CPUsPerRank, err)
	}
	return on, err
}

// shareObjects binds ranks that are mapped to the same object to equal shares of it: for
// ppr:N:OBJECT, and near a device.
func (on *mapping) shareObjects(m MapBy) error {
	t := on.tree
	if !m.Object.part() {
		if len(on.assignments) > len(t.cores) {
			return errFull{errors.New("more ranks than cores")}
		}
		nodes := make([][]int, len(on.assignments))
		for i, s := range on.assignments {
			if len(s.gpus) > 1 {
				nodes[i] = t.gpuNodes(s.gpus)
			} else if cores := t.coresIn(s.locale); len(cores) > 0 && len(cores) < len(t.cores) {
				nodes[i] = []int{cores[0].Node}
			}
		}
		for i, share := range t.nearNodes(nodes, 0) {
			on.assignments[i].cpus = share
		}
		return nil
	}
	for i, set := range on.objects {
		var ranks []int
		for j, s := range on.assignments {
			if s.object == i {
				ranks = append(ranks, j)
			}
		}
		cores := t.coresIn(set)
		if len(ranks) > len(cores) {
			return errFull{fmt.Errorf("%s %d has %s", nouns[m.Object], i, plural(len(cores), "core"))}
		}
		if len(ranks) == 0 {
			continue
		}
		for k, share := range divide(cores, len(ranks), 0) {
			on.assignments[ranks[k]].cpus = cpusOf(share)
		}
	}
	return nil
}
