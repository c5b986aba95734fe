// Package guest is a virtual machine with several NUMA nodes, for tests on hosts with a single node. A Linux kernel
// runs under qemu; its disk is an archive in memory with gorun and the program of the folder boot.
//
//	test ─ cases.json in the archive ──▶ /init (boot) ── gorun --dry-run --json …  the plan
//	     ◀── a line of JSON of each, ttyS1 ──┘       └─ gorun … /init      ranks print a line each
package guest

// Names in the archive.
const (
	// CasesFile holds a []Case as JSON.
	CasesFile = "cases.json"
	// RankVariable makes /init run as a rank.
	RankVariable = "GUEST_RANK"
)

// Case is one gorun command line to run in the guest.
type Case struct {
	Words []string // options
	// Group holds the settings of a new cgroup (version 2) for gorun, from file name to text. If it is empty, gorun
	// runs in the root cgroup.
	Group map[string]string `json:",omitempty"`
	// ReadOnly makes /sys read-only, as in a container.
	ReadOnly bool `json:",omitempty"`
}

// Outcome is the result of one case. The first outcome precedes those of the cases: its Stdout is the output of
// `gorun topo --json`.
type Outcome struct {
	Plan   string // output of --dry-run --json
	Stdout string // output of the ranks
	Stderr string // standard error of both runs
	Error  string // reason why the outcome is incomplete, or ""
}

// Rank is what a rank reports about itself.
type Rank struct {
	Rank    string
	CPUs    string // Cpus_allowed_list of /proc/self/status
	Policy  string // memory policy in the format of /proc/self/numa_maps, such as prefer:1
	Threads string // OMP_NUM_THREADS
	Home    []int  // NUMA nodes of the pages that it touched from its initial CPUs
	Away    []int  // the same, after it moved to AwayCPU
	AwayCPU int    // -1: it has no other CPU
}
