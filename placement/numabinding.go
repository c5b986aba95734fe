package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// numaBinding binds ranks as torchrun's --numa-binding does: by the NUMA node of
// the rank's GPU, whatever other ranks do. Where torchrun fails because there is
// no GPU, or its node is not known, ranks are spread over the NUMA nodes in blocks.
func (r Request) numaBinding(t *tree, n int, gpus []GPU) (mapped, error) {
	on := r.seated(t, n, gpus)
	homes := on.homesOrBlocks()
	bind := map[NUMABinding]func(homes []int, on *mapped) error{
		NUMANodeBinding: t.bindNodes, NUMASocketBinding: t.bindSockets,
		NUMAExclusive: t.bindExclusive, NUMACoreComplex: t.bindComplexes,
	}[r.NUMABinding]
	if bind == nil {
		_, err := ParseNUMABinding(string(r.NUMABinding))
		return on, err
	}
	err := bind(homes, &on)
	for i := range on.seats {
		s := &on.seats[i]
		s.locale = s.cpus
		s.reason = fmt.Sprintf("--numa-binding %s: %s", r.NUMABinding, t.describe(s.cpus))
	}
	return on, err
}

// homesOrBlocks returns the NUMA node of each seat's first GPU; where one is not
// known, all seats are spread over the nodes in blocks.
func (on *mapped) homesOrBlocks() []int {
	nodes := on.tree.nodes
	blocks := make([]int, len(on.seats))
	var homes []int
	for i, s := range on.seats {
		if len(nodes) > 0 {
			blocks[i] = nodes[i*len(nodes)/len(on.seats)]
		}
		if near := on.tree.gpuHomes(s.gpus); len(near) > 0 {
			homes = append(homes, near[0])
		}
	}
	if len(homes) < len(on.seats) {
		on.tree.note(
			fmt.Sprintf("the NUMA nodes of GPUs are not known for all ranks of %s: --numa-binding spreads the ranks over its "+
				"NUMA nodes", on.tree.name))
		return blocks
	}
	return homes
}

// bindNodes gives each rank all CPUs of its NUMA node.
func (t *tree) bindNodes(homes []int, on *mapped) error {
	for i, home := range homes {
		on.seats[i].cpus = t.nodeCPUs(home)
	}
	return nil
}

// bindSockets gives each rank all CPUs of its NUMA node's package.
func (t *tree) bindSockets(homes []int, on *mapped) error {
	for i, home := range homes {
		node := t.coresIn(t.nodeCPUs(home))
		for _, c := range t.cores {
			if c.Package == node[0].Package {
				on.seats[i].cpus = on.seats[i].cpus.Union(c.cpus)
			}
		}
	}
	return nil
}

// neighbours returns the ranks of each NUMA node.
func neighbours(homes []int) map[int][]int {
	ranks := make(map[int][]int)
	for i, home := range homes {
		ranks[home] = append(ranks[home], i)
	}
	return ranks
}

// bindExclusive shares the cores of each NUMA node evenly among its ranks.
func (t *tree) bindExclusive(homes []int, on *mapped) error {
	guests := neighbours(homes)
	for _, home := range t.nodes {
		ranks := guests[home]
		cores := t.coresIn(t.nodeCPUs(home))
		if len(ranks) > len(cores) {
			return fmt.Errorf("--numa-binding exclusive: %s on the %s of NUMA node %d of %s", plural(len(ranks), "rank"),
				plural(len(cores), "core"), home, t.name)
		}
		lowest := t.lowest(CPU.core)
		slices.SortFunc(cores, func(a, b *core) int { return cmp.Compare(lowest[a.core()], lowest[b.core()]) })
		for k, rank := range ranks {
			each, more := len(cores)/len(ranks), len(cores)%len(ranks)
			first := k*each + min(k, more)
			last := first + each
			if k < more {
				last++
			}
			on.seats[rank].cpus = cpusOf(cores[first:last])
		}
	}
	return nil
}

// core is what tells a core from others.
func (c CPU) core() int {
	if c.Core >= 0 {
		return c.Core
	}
	return -1 - c.ID // a core of its own
}

// lowest returns the lowest number of the CPUs of each object, allowed or not: the
// order in which torchrun takes them.
func (t *tree) lowest(object func(CPU) int) map[int]int {
	numbers := make(map[int]int)
	for _, cpu := range t.machine.Topology.CPUs {
		if n, known := numbers[object(cpu)]; !known || cpu.ID < n {
			numbers[object(cpu)] = cpu.ID
		}
	}
	return numbers
}

// lastCache is the number of the largest cache that a CPU has.
func lastCache(c CPU) int {
	if c.L3 >= 0 {
		return c.L3
	}
	return c.L2
}

// bindComplexes gives each rank the CPUs of one L3 cache of its NUMA node, the
// largest first; there may be more ranks than caches.
func (t *tree) bindComplexes(homes []int, on *mapped) error {
	lowest := t.lowest(lastCache)
	for home, ranks := range neighbours(homes) {
		caches := groupBy(t.coresIn(t.nodeCPUs(home)), func(c *core) int { return lastCache(c.CPU) })
		slices.SortStableFunc(caches, func(a, b []*core) int {
			return cmp.Or(cmp.Compare(cpusOf(b).Len(), cpusOf(a).Len()),
				cmp.Compare(lowest[lastCache(a[0].CPU)], lowest[lastCache(b[0].CPU)]))
		})
		for k, rank := range ranks {
			on.seats[rank].cpus = cpusOf(caches[k%len(caches)])
		}
	}
	return nil
}
