// Package gpufacts holds what a vendor's library told of a machine's GPUs, as it
// goes from the process that asked to the one that wants to know, and how it
// completes what the kernel's files tell. It asks nobody itself.
package gpufacts

import "gorun/placement"

// Facts are what NVIDIA's management library (NVML) told of the GPUs that it
// knows. They are JSON between two processes of one version.
type Facts struct {
	// Error says why the library told nothing at all; "" if it did.
	Error string `json:"error,omitempty"`
	// GPUs are in the order of the library.
	GPUs []GPU `json:"gpus,omitempty"`
	// Notes are remarks on what it refused, one sentence each.
	Notes []string `json:"notes,omitempty"`
	// CUDA is the newest version of CUDA that the driver serves: "12.8".
	CUDA string `json:"cuda,omitempty"`
}

// GPU is what was told of one; a zero value was not told, but for
// pointers, where 0 says something and nil is not told.
type GPU struct {
	PCI        string   `json:"pci"` // as the kernel spells it
	UUID       string   `json:"uuid,omitempty"`
	Name       string   `json:"name,omitempty"`
	Memory     int64    `json:"memory,omitempty"` // bytes
	MIG        []string `json:"mig,omitempty"`    // UUIDs of its parts
	Used       *bool    `json:"used,omitempty"`   // a process computes on it
	MemoryNode *int     `json:"memory_node,omitempty"`
	// Busy is the part of the last moment, in percent, in which it computed; Taken how many
	// bytes of its memory are in use.
	Busy  *int   `json:"busy,omitempty"`
	Taken *int64 `json:"taken,omitempty"`
	// Failed says that the library failed for it, as for one that fell off the bus.
	Failed bool `json:"failed,omitempty"`
	// Near are the CPUs of its NUMA node.
	Near placement.CPUSet `json:"near,omitzero"`
	// Links are NVLinks that are up, by the PCI address at their other end.
	Links map[string]int `json:"links,omitempty"`
	// Switched are those to an NVSwitch, Down those that are not up.
	Switched int              `json:"switched,omitempty"`
	Down     int              `json:"down,omitempty"`
	Peers    []placement.Peer `json:"peers,omitempty"`
	// Processes are the ids of those that compute on it, as this process sees them.
	Processes []int `json:"processes,omitempty"`
	// Health is how it is; nil: not told.
	Health *Health `json:"health,omitempty"`
}

// Health is how a GPU is; a zero value is well, or not told.
type Health struct {
	// NoPersistence says that the driver forgets it whenever nobody uses it.
	NoPersistence bool `json:"no_persistence,omitempty"`
	// Mode is its compute mode where that is not the default one: "exclusive process",
	// "prohibited".
	Mode string `json:"mode,omitempty"`
	// Slowed are reasons of the hardware for a lower clock now: "thermal slowdown".
	Slowed []string `json:"slowed,omitempty"`
	// Uncorrected counts errors of its memory since the driver was loaded.
	Uncorrected int64 `json:"uncorrected,omitempty"`
	// Pending says that rows or pages of bad memory wait for a reset to be replaced,
	// Broken that they could not be replaced.
	Pending bool `json:"pending,omitempty"`
	Broken  bool `json:"broken,omitempty"`
}

// paths leaves of the facts what says how GPUs reach each other, and what they
// are called in a picture: nothing that a decision on ranks depends on.
func (f Facts) paths() Facts {
	reduced := Facts{Error: f.Error, Notes: f.Notes}
	for _, g := range f.GPUs {
		reduced.GPUs = append(reduced.GPUs, GPU{
			PCI: g.PCI, Name: g.Name, Memory: g.Memory, Links: g.Links, Switched: g.Switched, Down: g.Down, Peers: g.Peers,
		})
	}
	return reduced
}
