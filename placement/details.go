package placement

// Details are what a node's kernel tells beyond its [Topology]: no place of a rank depends
// on them, but descriptions of the machine for other programs have them.
type Details struct {
	// Allowed are the CPUs of the Topology that the cpuset of this process has, whatever the
	// process is bound to.
	Allowed CPUSet
	// Packages, Dies and Cores are the kernel's numbers by the Topology's; what it does not
	// tell is not there.
	Packages, Dies, Cores map[int]int
	// Caches are those for data.
	Caches []Cache
}

// Cache is a cache for data, of level 1 to 3.
type Cache struct {
	Level int
	CPUs  CPUSet // those online that share it
	ID    int    // the kernel's number among those of its level, -1: not told
	// Unified says that it is for instructions, too.
	Unified bool
	// Size and Line are in bytes, Ways is the associativity; 0: not told.
	Size       int64
	Line, Ways int
}
