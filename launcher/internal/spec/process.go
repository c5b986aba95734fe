package spec

import "gorun/placement"

// App is one program of a job, as a node executes it.
type App struct {
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Dir  string   `json:"dir,omitempty"`
	Kind string   `json:"kind"` // for plans: "executable", "python script" …
	// Build says that the node compiles the program that it found under the same number first.
	Build    bool `json:"build,omitempty"`
	NumRanks int  `json:"ranks"`
}

// Process is one rank as its node executes it, but for its environment.
type Process struct {
	Rank      int `json:"rank"`
	Node      int `json:"node"`
	LocalRank int `json:"local_rank"`
	App       int `json:"app"`
	// Argv is the rank's own, where it differs from its app's.
	Argv []string `json:"argv,omitempty"`
	// CPUs are those to which it is bound, Memories the NUMA nodes for which MemoryPolicy holds; empty: as its agent.
	CPUs         placement.CPUSet `json:"cpus,omitzero"`
	Memories     placement.CPUSet `json:"memories,omitzero"`
	MemoryPolicy MemoryPolicy     `json:"memory_policy,omitempty"`
	// Spawned is set where another rank asked for it while the job ran: it has no log files.
	Spawned bool `json:"-"`
}

// MemoryPolicy is a policy by its number in set_mempolicy(2); 0 leaves the kernel's.
type MemoryPolicy int

// The policies.
const (
	MemoryPreferred     MemoryPolicy = 1
	MemoryBind          MemoryPolicy = 2
	MemoryInterleave    MemoryPolicy = 3
	MemoryPreferredMany MemoryPolicy = 5
)

// String is the policy as --bind-mem names it.
func (p MemoryPolicy) String() string {
	switch p {
	case MemoryPreferred, MemoryPreferredMany:
		return "preferred"
	case MemoryBind:
		return "bind"
	case MemoryInterleave:
		return "interleave"
	}
	return "none"
}

// MarshalText makes JSON show the policy's name.
func (p MemoryPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
