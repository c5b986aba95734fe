package sysfs

import (
	"cmp"
	"slices"
	"strconv"

	"gorun/placement"
)

// A machine has hundreds of CPUs but few objects of each kind, and each CPU of an object lists all its
// CPUs. Therefore one file per object is enough: that of its first CPU.

const cpuDir = "sys/devices/system/cpu"

// maxThreads is the largest number of hardware threads per core on any machine (POWER). A virtual
// machine reports more if it does not know the cores.
const maxThreads = 8

// cpuReader reads the objects that contain each CPU.
type cpuReader struct {
	*reader
	ids     []int          // the online CPUs in numerical order
	at      map[int]int    // from a CPU's number to its index in ids
	kinds   []int          // rank by capacity, 0 for the strongest
	folders map[int]levels // cache folders by kind of CPU
}

// levels are the names of cache folders by level ("index3" for 3), or "" if there is no such cache.
type levels [4]string

func newCPUReader(r *reader, ids []int) *cpuReader {
	c := &cpuReader{reader: r, ids: ids, at: map[int]int{}, kinds: make([]int, len(ids)), folders: map[int]levels{}}
	for i, cpu := range ids {
		c.at[cpu] = i
	}
	return c
}

// A level has an entry for each index in ids: the lowest CPU of the object that contains the CPU, or
// -1 if unknown.
type level []int

// parts define the order of the logical numbers, outermost first.
type parts struct{ packages, nodes, dies, l3, l2, cores level }

// readCPUs returns the online CPUs and the objects that contain them. The caller provides the NUMA
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

// list returns a function that reads the CPUs of an object from a CPU's folder. The function reads the
// first of the named files that exists.
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

// packages assigns a package to every CPU. If packages are unknown, all CPUs are in one package.
func (c *cpuReader) packages() level {
	l := c.group(c.list("topology/package_cpus_list", "topology/core_siblings_list"))
	if i := slices.Index(l, -1); i >= 0 {
		c.note("the package of CPU %d is unknown: gorun assumes the first", c.ids[i])
	}
	for i := range l {
		if l[i] < 0 {
			l[i] = c.ids[0]
		}
	}
	return l
}

// cores assigns a core to every CPU. If cores are unknown, each CPU is a core.
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
		c.note("hardware threads are unknown: the kernel lists more than %d for a core, so every CPU counts as a core",
			maxThreads)
	}
	for i := range l {
		if l[i] < 0 {
			l[i] = c.ids[i]
		}
	}
	return l
}

// readKinds ranks the CPUs by capacity.
func (c *cpuReader) readKinds() {
	kind := 0
	for _, name := range []string{"cpu_core", "cpu_atom", "cpu_lowpower"} { // Intel
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
	// Other machines report a capacity for each CPU, 1024 for the strongest. Servers have a single kind of
	// core, so they need not read hundreds of files.
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

// caches groups the CPUs by L2 and L3 cache. Most cores have private L2 caches. If that holds for the
// first and last core of a package and kind, the others are not read. The exception is a core whose
// neighbors may be offline.
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

// sharing returns a function that reads the CPUs that share a cache of a level.
func (c *cpuReader) sharing(level int) func(cpu int) (placement.CPUSet, bool) {
	return func(cpu int) (placement.CPUSet, bool) {
		if folder := c.folder(cpu, level); folder != "" {
			return c.list("cache/" + folder + "/shared_cpu_list")(cpu)
		}
		return placement.CPUSet{}, false
	}
}

// ownL2 reports for each package and kind whether its cores have private L2 caches. It checks the
// first and the last CPU.
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
	for i, cpu := range c.ids { // in a fixed order, to always read the same files
		key := [2]int{l.packages[i], c.kinds[i]}
		if own[key] && last[key] == cpu {
			own[key] = check(cpu)
		}
	}
	return own
}

// members returns the CPUs of each object by its lowest CPU.
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

// folder returns the folder of a CPU's data or unified cache at a level. It reads the folder names
// once per kind.
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

// nodes assigns each CPU to its NUMA node.
func (c *cpuReader) nodes(cpus []placement.CPU, nodes []placement.NUMANode) level {
	l := make(level, len(c.ids))
	for _, node := range nodes { // readNodes assigns each CPU to a node
		for cpu := range node.CPUs.All() {
			l[c.at[cpu]], cpus[c.at[cpu]].Node = node.CPUs.Min(), node.ID
		}
	}
	return l
}

// number assigns logical numbers. CPUs are in the order of the machine's tree, with siblings ordered
// by their lowest CPU. Objects are numbered in order of first appearance.
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

// keys returns the sort keys of the CPUs, each with its index as the last element. An unknown level
// takes the value of the next inner level, as if it did not exist.
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
