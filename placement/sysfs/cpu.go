package sysfs

import (
	"cmp"
	"slices"
	"strconv"

	"gorun/placement"
)

// A machine has hundreds of CPUs but few objects of each kind, and every object
// is known to each of its CPUs. So the file of the first CPU that belongs to none
// yet is read, and the CPUs that it lists are done.

const cpuDir = "sys/devices/system/cpu"

// maxThreads is the largest number of hardware threads that a core has on any
// machine (POWER). More are a virtual machine's way to say that it doesn't know.
const maxThreads = 8

// cpuReader finds out what the CPUs are part of.
type cpuReader struct {
	*reader
	ids     []int          // the online CPUs by number
	at      map[int]int    // from a CPU's number to its place in ids
	kinds   []int          // how strong they are, the strongest 0
	folders map[int]levels // where CPUs of a kind have their caches
}

// levels are the names of cache folders by level ("index3" for 3); "": there is no such cache.
type levels [4]string

func newCPUReader(r *reader, ids []int) *cpuReader {
	c := &cpuReader{reader: r, ids: ids, at: map[int]int{}, kinds: make([]int, len(ids)), folders: map[int]levels{}}
	for i, cpu := range ids {
		c.at[cpu] = i
	}
	return c
}

// A level says for each place in ids which object of a kind the CPU belongs to,
// by the object's lowest CPU; -1: not known.
type level []int

// parts are what the order of the logical numbers follows, outermost first.
type parts struct{ packages, nodes, dies, l3, l2, cores level }

// readCPUs returns the online CPUs and what they are part of, given the NUMA
// nodes.
func (r *reader) readCPUs(online []int, nodes []placement.NUMANode) []placement.CPU {
	if len(online) == 0 {
		return nil
	}
	c := newCPUReader(r, online)
	c.readKinds()
	l := parts{packages: c.packages(), dies: c.group(c.list("topology/die_cpus_list"))}
	l.cores = c.cores()
	l.l2, l.l3 = c.caches(l)
	cpus := make([]placement.CPU, len(online))
	l.nodes = c.nodes(cpus, nodes)
	for i, cpu := range online {
		cpus[i].ID, cpus[i].Kind = cpu, c.kinds[i]
	}
	l.number(cpus)
	return cpus
}

// list makes a function that reads a CPU's list of those with which it shares an
// object; the first name that there is counts.
func (c *cpuReader) list(names ...string) func(cpu int) (placement.CPUSet, bool) {
	return func(cpu int) (placement.CPUSet, bool) {
		for _, name := range names {
			if set, ok := c.cpus(cpuDir + "/cpu" + strconv.Itoa(cpu) + "/" + name); ok && set.Has(cpu) {
				return set, true
			}
		}
		return placement.CPUSet{}, false
	}
}

// group forms the objects of one kind.
func (c *cpuReader) group(list func(cpu int) (placement.CPUSet, bool)) level {
	l := level(slices.Repeat([]int{-1}, len(c.ids)))
	for i, cpu := range c.ids {
		if l[i] >= 0 {
			continue
		}
		set, ok := list(cpu)
		if !ok {
			continue
		}
		for member := range set.All() {
			if at, online := c.at[member]; online && l[at] < 0 {
				l[at] = cpu
			}
		}
	}
	return l
}

// packages never has a gap: without other knowledge all CPUs are one package.
func (c *cpuReader) packages() level {
	l := c.group(c.list("topology/package_cpus_list", "topology/core_siblings_list"))
	if i := slices.Index(l, -1); i >= 0 {
		c.note("the package of CPU %d is not known: taken for the first one's", c.ids[i])
	}
	for i := range l {
		if l[i] < 0 {
			l[i] = c.ids[0]
		}
	}
	return l
}

// cores never has a gap: without other knowledge every CPU is a core.
func (c *cpuReader) cores() level {
	siblings := c.list("topology/core_cpus_list", "topology/thread_siblings_list")
	if active, _ := c.text(cpuDir + "/smt/active"); active == "0" {
		siblings = func(int) (placement.CPUSet, bool) { return placement.CPUSet{}, false }
	}
	strange := false
	l := c.group(func(cpu int) (placement.CPUSet, bool) {
		set, ok := siblings(cpu)
		if ok && set.Len() > maxThreads {
			strange, ok = true, false
		}
		return set, ok
	})
	if strange {
		c.note("hardware threads are not known: the kernel lists more than %d for a core; every CPU counts as a core",
			maxThreads)
	}
	for i := range l {
		if l[i] < 0 {
			l[i] = c.ids[i]
		}
	}
	return l
}

// readKinds finds out how strong the CPUs are.
func (c *cpuReader) readKinds() {
	kind := 0
	for _, name := range []string{"cpu_core", "cpu_atom", "cpu_lowpower"} { // Intel's
		set, ok := c.cpus("sys/devices/" + name + "/cpus")
		if !ok || set.Len() == 0 {
			continue
		}
		for i, cpu := range c.ids {
			if set.Has(cpu) {
				c.kinds[i] = kind
			}
		}
		kind++
	}
	// Elsewhere every CPU has its capacity, 1024 for the strongest. No server has
	// different ones, so they need not read hundreds of files.
	if kind == 0 && len(c.ids) <= 64 {
		c.readCapacities()
	}
}

func (c *cpuReader) readCapacities() {
	capacity := make([]int, len(c.ids))
	for i, cpu := range c.ids {
		n, ok := c.number(cpuDir + "/cpu" + strconv.Itoa(cpu) + "/cpu_capacity")
		if !ok {
			return
		}
		capacity[i] = n
	}
	distinct := slices.Clone(capacity)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	slices.Reverse(distinct)
	for i := range c.kinds {
		c.kinds[i] = slices.Index(distinct, capacity[i])
	}
}

// caches groups the CPUs by their caches of level 2 and 3. A core mostly has an L2
// cache to itself: where the first and the last of a package and kind have, the
// others are not asked, unless their neighbours may just be switched off.
func (c *cpuReader) caches(l parts) (l2, l3 level) {
	cores, online := c.members(l.cores), placement.NewCPUSet(c.ids...)
	core := func(cpu int) placement.CPUSet { return cores[l.cores[c.at[cpu]]] }
	own := c.ownL2(l, func(cpu int) bool {
		set, ok := c.sharing(2)(cpu)
		return ok && c.machine.Topology.Offline.Len() == 0 && set.Intersection(online).Equal(core(cpu))
	})
	l2 = c.group(func(cpu int) (placement.CPUSet, bool) {
		if i := c.at[cpu]; own[[2]int{l.packages[i], c.kinds[i]}] {
			return core(cpu), true
		}
		return c.sharing(2)(cpu)
	})
	return l2, c.group(c.sharing(3))
}

// sharing makes a function that reads with which CPUs one shares its cache of a level.
func (c *cpuReader) sharing(level int) func(cpu int) (placement.CPUSet, bool) {
	return func(cpu int) (placement.CPUSet, bool) {
		if folder := c.folder(cpu, level); folder != "" {
			return c.list("cache/" + folder + "/shared_cpu_list")(cpu)
		}
		return placement.CPUSet{}, false
	}
}

// ownL2 tells for each package and kind whether its cores have L2 caches of their
// own, by what check says of the first and the last CPU.
func (c *cpuReader) ownL2(l parts, check func(cpu int) bool) map[[2]int]bool {
	own := map[[2]int]bool{}
	last := map[[2]int]int{}
	for i, cpu := range c.ids {
		key := [2]int{l.packages[i], c.kinds[i]}
		if _, seen := own[key]; !seen {
			own[key] = check(cpu)
		}
		last[key] = cpu
	}
	for i, cpu := range c.ids { // in this order, so that always the same files are read
		key := [2]int{l.packages[i], c.kinds[i]}
		if own[key] && last[key] == cpu {
			own[key] = check(cpu)
		}
	}
	return own
}

// members returns the CPUs of each object by its lowest one.
func (c *cpuReader) members(l level) map[int]placement.CPUSet {
	cpus := map[int][]int{}
	for i, first := range l {
		cpus[first] = append(cpus[first], c.ids[i])
	}
	sets := map[int]placement.CPUSet{}
	for first, own := range cpus {
		sets[first] = placement.NewCPUSet(own...)
	}
	return sets
}

// folder is where a CPU has its cache of a level that is not for instructions. It is asked once for each kind.
func (c *cpuReader) folder(cpu, level int) string {
	kind := c.kinds[c.at[cpu]]
	if found, known := c.folders[kind]; known {
		return found[level]
	}
	var found levels
	for i := range 10 {
		folder := "index" + strconv.Itoa(i)
		dir := cpuDir + "/cpu" + strconv.Itoa(cpu) + "/cache/" + folder
		n, ok := c.number(dir + "/level")
		if !ok {
			break
		}
		if kind, _ := c.text(dir + "/type"); n >= 1 && n <= 3 && kind != "Instruction" {
			found[n] = folder
		}
	}
	c.folders[kind] = found
	return found[level]
}

// nodes puts each CPU into its NUMA node.
func (c *cpuReader) nodes(cpus []placement.CPU, nodes []placement.NUMANode) level {
	l := make(level, len(c.ids))
	for _, node := range nodes { // readNodes sees to it that each CPU is in one
		for cpu := range node.CPUs.All() {
			l[c.at[cpu]], cpus[c.at[cpu]].Node = node.CPUs.Min(), node.ID
		}
	}
	return l
}

// number numbers the objects: the CPUs are put into the order of the machine's
// tree, in which neighbours are ordered by their lowest CPU, and each object is
// counted where it comes up first.
func (l parts) number(cpus []placement.CPU) {
	keys := l.keys(cpus)
	slices.SortFunc(keys, func(a, b [8]int) int { return slices.Compare(a[:], b[:]) })
	count := func(l level, field func(*placement.CPU) *int) {
		numbers := map[int]int{}
		for _, key := range keys {
			i := key[7]
			if l[i] < 0 {
				*field(&cpus[i]) = -1
				continue
			}
			n, seen := numbers[l[i]]
			if !seen {
				n = len(numbers)
				numbers[l[i]] = n
			}
			*field(&cpus[i]) = n
		}
	}
	count(l.packages, func(c *placement.CPU) *int { return &c.Package })
	count(l.dies, func(c *placement.CPU) *int { return &c.Die })
	count(l.l3, func(c *placement.CPU) *int { return &c.L3 })
	count(l.l2, func(c *placement.CPU) *int { return &c.L2 })
	count(l.cores, func(c *placement.CPU) *int { return &c.Core })
	threads := map[int]int{}
	for i := range cpus {
		cpus[i].Thread = threads[cpus[i].Core]
		threads[cpus[i].Core]++
	}
}

// keys makes what the CPUs are ordered by, with their places at the end. Where a level is not known, the next
// one inside stands for it, as if it were not there.
func (l parts) keys(cpus []placement.CPU) [][8]int {
	keys := make([][8]int, len(cpus))
	for i, cpu := range cpus {
		core := l.cores[i]
		l2 := cmp.Or(l.l2[i]+1, core+1) - 1
		l3 := cmp.Or(l.l3[i]+1, l2+1) - 1
		die := cmp.Or(l.dies[i]+1, l3+1) - 1
		keys[i] = [8]int{l.packages[i], l.nodes[i], die, l3, l2, core, cpu.ID, i}
	}
	return keys
}
