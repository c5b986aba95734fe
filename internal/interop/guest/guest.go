// Package guest is a machine with several NUMA nodes, for hosts that have one: a Linux kernel under qemu whose whole
// disk is an archive in memory with gorun and the program of the folder boot.
//
//	test ─ cases.json in the archive ──▶ /init (boot) ── gorun --dry-run --json …  the plan
//	     ◀── a line of JSON of each, ttyS1 ──┘       └─ gorun … /init      ranks print a line each
package guest

// Names in the archive.
const (
	// CasesFile holds a []Case as JSON.
	CasesFile = "cases.json"
	// RankVariable has /init be a rank.
	RankVariable = "GUEST_RANK"
)

// Case is one command line of gorun to try in the guest.
type Case struct {
	Words []string // options
	// Group is written into a cgroup of its own (version 2), in which gorun then runs: file to text. Empty: it runs in
	// the root.
	Group map[string]string `json:",omitempty"`
	// ReadOnly has /sys read-only, as in a container.
	ReadOnly bool `json:",omitempty"`
}

// Outcome is what came of one. Before those of the cases there is one with what `gorun topo --json` prints as its
// Stdout.
type Outcome struct {
	Plan   string // what --dry-run --json printed
	Stdout string // what the ranks printed
	Stderr string // of both runs
	Error  string // why there is no more to say, or ""
}

// Rank is what a rank says of itself.
type Rank struct {
	Rank    string
	CPUs    string // Cpus_allowed_list of /proc/self/status
	Policy  string // memory policy as /proc/self/numa_maps has it, such as prefer:1
	Threads string // OMP_NUM_THREADS
	Home    []int  // NUMA nodes of the pages that it touched from where it was put
	Away    []int  // the same, touched from CPU AwayCPU after it had moved there
	AwayCPU int    // -1: it may run nowhere else
}
