package placement

import (
	"cmp"
	"slices"
	"strings"
)

// Locality returns the parts of a machine that a set of CPUs is in, in the notation in which MPI
// libraries compare the positions of ranks (PMIX_LOCALITY_STRING):
// "SK0:L30:L20-1:L10-1:CR0-1:HT0-3:NM0" is package 0, its L3 cache 0, L2 and L1 caches 0 and 1,
// cores 0 and 1, hardware threads 0 to 3, and NUMA node 0. Numbers are hwloc's logical ones, which
// count each kind over the whole machine. Kinds that are not known are left out. The result is
// empty for an empty set, and if the topology is not known.
//
// Order and spelling are those of libpmix 4.2 with hwloc 2 (PMIx_server_generate_locality_string),
// which puts NUMA nodes last. Each core has its own L1 cache, which is listed if L2 caches are
// known.
func Locality(m Machine, set CPUSet) string {
	if m.Topology == nil || set.Len() == 0 {
		return ""
	}
	var parts [len(localityKinds)][]int
	for thread, cpu := range m.Topology.inOrder() {
		if set.Has(cpu.ID) {
			for i, n := range localityOf(cpu, thread) {
				if n >= 0 {
					parts[i] = append(parts[i], n)
				}
			}
		}
	}
	parts[len(parts)-1] = m.Topology.logicalNodes(set)
	var words []string
	for i, numbers := range parts {
		if len(numbers) > 0 {
			words = append(words, localityKinds[i]+NewCPUSet(numbers...).String())
		}
	}
	return strings.Join(words, ":")
}

// localityKinds are the prefixes of the parts of a locality, in order.
var localityKinds = [...]string{"SK", "L3", "L2", "L1", "CR", "HT", "NM"}

// localityOf returns a CPU's numbers of all kinds but NUMA nodes, -1 if not known. thread is its
// logical number.
func localityOf(cpu CPU, thread int) [6]int {
	l1 := -1
	if cpu.L2 >= 0 {
		l1 = cpu.Core
	}
	return [...]int{cpu.Package, cpu.L3, cpu.L2, l1, cpu.Core, thread}
}

// inOrder returns the CPUs in hwloc's logical order.
func (t *Topology) inOrder() []CPU {
	cpus := slices.Clone(t.CPUs)
	slices.SortStableFunc(cpus, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.ID, b.ID))
	})
	return cpus
}

// logicalNodes returns the logical numbers of the NUMA nodes of a set of CPUs. hwloc numbers them
// in the order of their CPUs, those without CPUs last.
func (t *Topology) logicalNodes(set CPUSet) (numbers []int) {
	known := make(map[int]int)
	for _, cpu := range t.inOrder() {
		n, seen := known[cpu.Node]
		if !seen {
			n = len(known)
			known[cpu.Node] = n
		}
		if set.Has(cpu.ID) && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
