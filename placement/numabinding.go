package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// numaBinding binds ranks as torchrun's --numa-binding does: by the NUMA node of the rank's GPU,
// regardless of other ranks. Where torchrun fails because there is no GPU or its node is not known,
// ranks are spread over the NUMA nodes in blocks.
func (r Request) numaBinding(t *tree, n int, gpus []GPU) (mapping, error) {
	on := r.unassigned(t, n, gpus)
	share := numaShares()[r.NUMABinding]
	if share == nil {
		_, err := ParseNUMABinding(string(r.NUMABinding))
		return on, err
	}
	ranks := make(map[int][]int) // by NUMA node
	for i, node := range on.nodesOrBlocks() {
		ranks[node] = append(ranks[node], i)
	}
	for _, node := range t.nodes {
		if len(ranks[node]) == 0 {
			continue
		}
		cores := t.coresIn(t.nodeCPUs(node))
		sets := share(t, cores, len(ranks[node]))
		if len(sets) == 0 {
			return on, fmt.Errorf("--numa-binding %s: %s on the %s of NUMA node %d of %s", r.NUMABinding,
				plural(len(ranks[node]), "rank"), plural(len(cores), "core"), node, t.name)
		}
		for k, rank := range ranks[node] {
			s := &on.assignments[rank]
			s.cpus = sets[k%len(sets)]
			s.locale = s.cpus
			s.reason = fmt.Sprintf("--numa-binding %s: %s", r.NUMABinding, t.describe(s.cpus))
		}
	}
	return on, nil
}

// numaShares are functions that return the CPUs for the ranks of a NUMA node, given its cores and
// the number of ranks. If they return fewer sets than ranks, the sets repeat.
func numaShares() map[NUMABinding]func(t *tree, cores []*core, ranks int) []CPUSet {
	return map[NUMABinding]func(t *tree, cores []*core, ranks int) []CPUSet{
		NUMANodeBinding: func(_ *tree, cores []*core, _ int) []CPUSet { return []CPUSet{cpusOf(cores)} },
		NUMASocketBinding: func(t *tree, cores []*core, _ int) []CPUSet {
			return []CPUSet{cpusOf(slices.DeleteFunc(slices.Clone(t.cores), func(c *core) bool {
				return c.Package != cores[0].Package
			}))}
		},
		NUMAExclusive: func(t *tree, cores []*core, ranks int) []CPUSet {
			if ranks > len(cores) {
				return nil
			}
			lowest := t.lowest(CPU.core)
			slices.SortFunc(cores, func(a, b *core) int { return cmp.Compare(lowest[a.core()], lowest[b.core()]) })
			each := slices.Collect(slices.Chunk(cores, 1))
			return shareSets(cut([][][]*core{each}, []int{ranks}, len(cores)))
		},
		// The L3 caches, the largest first.
		NUMACoreComplex: func(t *tree, cores []*core, _ int) []CPUSet {
			lowest := t.lowest(lastCache)
			caches := groupBy(cores, func(c *core) int { return lastCache(c.CPU) })
			slices.SortStableFunc(caches, func(a, b []*core) int {
				return cmp.Or(cmp.Compare(cpusOf(b).Len(), cpusOf(a).Len()),
					cmp.Compare(lowest[lastCache(a[0].CPU)], lowest[lastCache(b[0].CPU)]))
			})
			return shareSets(caches)
		},
	}
}

// nodesOrBlocks returns the NUMA node of each assignment's first GPU. If one is not known, it
// spreads all assignments over the nodes in blocks.
func (on *mapping) nodesOrBlocks() []int {
	all := on.tree.nodes
	blocks := make([]int, len(on.assignments))
	var nodes []int
	for i, a := range on.assignments {
		if len(all) > 0 {
			blocks[i] = all[i*len(all)/len(on.assignments)]
		}
		if near := on.tree.gpuNodes(a.gpus); len(near) > 0 {
			nodes = append(nodes, near[0])
		}
	}
	if len(nodes) < len(on.assignments) {
		on.tree.note(
			fmt.Sprintf("the NUMA nodes of some GPUs of %s are unknown: --numa-binding spreads its ranks over all NUMA nodes",
				on.tree.name))
		return blocks
	}
	return nodes
}

// core returns a number that identifies the CPU's core.
func (c CPU) core() int {
	if c.Core >= 0 {
		return c.Core
	}
	return -1 - c.ID // a core of its own
}

// lowest returns the lowest number of the CPUs of each object, allowed or not: torchrun's order of
// objects.
func (t *tree) lowest(object func(CPU) int) map[int]int {
	numbers := make(map[int]int)
	for _, cpu := range t.machine.Topology.CPUs {
		if n, known := numbers[object(cpu)]; !known || cpu.ID < n {
			numbers[object(cpu)] = cpu.ID
		}
	}
	return numbers
}

// lastCache returns the number of a CPU's largest cache.
func lastCache(c CPU) int {
	if c.L3 >= 0 {
		return c.L3
	}
	return c.L2
}
