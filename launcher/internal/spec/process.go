package spec

import (
	"path"
	"strings"

	"gorun/placement"
)

// App is one program of a job as a node executes it.
type App struct {
	Path string   `json:"path"`                // of the file that is executed
	Argv []string `json:"argv"`                // program and arguments
	Dir  string   `json:"directory,omitempty"` // working directory; absent for gorun's own
	Kind string   `json:"kind"`                // "executable", "Python script" …
	// Build makes the node compile its program of the same index first.
	Build    bool `json:"compiled_on_node,omitempty"`
	NumRanks int  `json:"rank_count"` // number of ranks that run it
}

// Python returns the index in Argv of the script, -m or -c that the Python of Path runs; 0: it runs no Python, or one
// that reads its program from its standard input.
func (a *App) Python() int {
	if !strings.HasPrefix(path.Base(a.Path), "python") {
		return 0
	}
	for i := 1; i < len(a.Argv); i++ {
		switch word := a.Argv[i]; {
		case word == "-m", word == "-c":
			if i+1 < len(a.Argv) {
				return i
			}
			return 0
		case word == "-X", word == "-W", word == "--check-hash-based-pycs":
			i++
		case !strings.HasPrefix(word, "-"):
			return i
		case strings.ContainsAny(word, "cimVh?") && !strings.HasPrefix(word, "-X") && !strings.HasPrefix(word, "-W"):
			return 0 // several options in one, an interactive session, a version
		case word == "-":
			return 0
		}
	}
	return 0
}

// Process is one rank as its node executes it, without its environment.
type Process struct {
	Rank      int `json:"rank"`       // number in the job
	Node      int `json:"node"`       // index of its node
	LocalRank int `json:"local_rank"` // number on the node
	App       int `json:"program"`    // index of its program
	// Argv replaces the app's.
	Argv         []string         `json:"argv,omitempty"`
	CPUs         placement.CPUSet `json:"cpus,omitzero"`           // those that it is bound to; empty: its agent's
	Memories     placement.CPUSet `json:"memory_nodes,omitzero"`   // the NUMA nodes of the policy
	MemoryPolicy MemoryPolicy     `json:"memory_policy,omitempty"` // how memory is placed on these nodes
	// Spawned reports that another rank spawned it while the job ran: it has no log files.
	Spawned bool `json:"-"`
}

// MemoryPolicy is a policy by its number in set_mempolicy(2); 0 leaves the kernel's.
type MemoryPolicy int

const (
	MemoryPreferred     MemoryPolicy = 1
	MemoryBind          MemoryPolicy = 2
	MemoryInterleave    MemoryPolicy = 3
	MemoryPreferredMany MemoryPolicy = 5
)

// String returns the policy as --bind-mem names it.
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

// MarshalText returns the policy's name.
func (p MemoryPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
