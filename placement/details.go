package placement

// Details are facts about a node beyond its [Topology]. The placement of ranks does not depend on
// them, but descriptions of the machine for other programs contain them.
type Details struct {
	// Allowed are the CPUs of the Topology in the cpuset of this process, regardless of its
	// affinity.
	Allowed CPUSet
	// Packages, Dies and Cores map the Topology's numbers to the kernel's. Entries are missing if
	// not known.
	Packages, Dies, Cores map[int]int
	// Caches are the data caches.
	Caches []Cache
}

// Cache is a data cache of level 1 to 3.
type Cache struct {
	Level int
	CPUs  CPUSet // the online CPUs that share it
	ID    int    // the kernel's number within the level, -1 if not known
	// Unified reports whether the cache also holds instructions.
	Unified bool
	// Size and Line are in bytes, Ways is the associativity; 0 if not known.
	Size       int64
	Line, Ways int
}
