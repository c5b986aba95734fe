// Package gpufacts holds facts about a machine's GPUs from a vendor's library. It defines their
// exchange between two processes, and merges them with the facts from the kernel's files. It does not
// call the library.
package gpufacts

import "gorun/placement"

// Facts are the facts about GPUs from NVIDIA's management library (NVML). Two processes of the same
// version exchange them as JSON.
type Facts struct {
	// Error is the reason if the library returned no facts, otherwise "".
	Error string `json:"error,omitempty"`
	// GPUs are in the order of the library.
	GPUs []GPU `json:"gpus,omitempty"`
	// Notes describe failed queries, one sentence each.
	Notes []string `json:"notes,omitempty"`
	// CUDA is the newest CUDA version that the driver supports: "12.8".
	CUDA string `json:"cuda,omitempty"`
}

// GPU has the facts about one GPU. A zero value means unknown. For a pointer, nil means unknown, and 0
// is a value.
type GPU struct {
	PCI        string   `json:"pci"`                   // in the kernel's format
	UUID       string   `json:"uuid,omitempty"`        // such as "GPU-8f6b0f6c-…"; absent if unknown
	Name       string   `json:"name,omitempty"`        // such as "NVIDIA H100 80GB HBM3"
	Memory     int64    `json:"memory,omitempty"`      // bytes
	MIG        []string `json:"mig,omitempty"`         // UUIDs of MIG devices
	Used       *bool    `json:"used,omitempty"`        // a compute process uses it
	MemoryNode *int     `json:"memory_node,omitempty"` // NUMA node of the GPU's own memory; absent if it has none
	// Busy is the recent utilization in percent. Taken is the memory in use, in bytes.
	Busy  *int   `json:"busy,omitempty"`
	Taken *int64 `json:"taken,omitempty"`
	// Power is the draw in milliwatts.
	Power *int `json:"power,omitempty"`
	// Temperature is that of the die in degrees Celsius.
	Temperature *int `json:"temperature,omitempty"`
	// Failed reports that the library failed for the GPU, for example because it fell off the bus.
	Failed bool `json:"failed,omitempty"`
	// Near are the CPUs of the GPU's NUMA node.
	Near placement.CPUSet `json:"near,omitzero"`
	// Links counts the active NVLinks by the PCI address of the peer.
	Links map[string]int `json:"links,omitempty"`
	// Switched counts the links to an NVSwitch. Down counts the inactive links.
	Switched int              `json:"switched,omitempty"`
	Down     int              `json:"down,omitempty"`
	Peers    []placement.Peer `json:"peers,omitempty"` // access to the memory of other GPUs
	// Processes are the IDs of the compute processes, in this process's PID namespace.
	Processes []int `json:"processes,omitempty"`
	// Health is nil if unknown.
	Health *Health `json:"health,omitempty"`
}

// Health is the health of a GPU. A zero value means healthy or unknown.
type Health struct {
	// NoPersistence reports that persistence mode is off.
	NoPersistence bool `json:"no_persistence,omitempty"`
	// Mode is the compute mode if it is not the default: "exclusive process" or "prohibited".
	Mode string `json:"mode,omitempty"`
	// Slowed lists the hardware's current reasons for lower clocks: "thermal slowdown".
	Slowed []string `json:"slowed,omitempty"`
	// Uncorrected is the number of uncorrected memory errors since the driver was loaded.
	Uncorrected int64 `json:"uncorrected,omitempty"`
	// Pending reports that the replacement of bad memory rows or pages requires a reset. Broken reports
	// that the replacement failed.
	Pending bool `json:"pending,omitempty"`
	Broken  bool `json:"broken,omitempty"`
}

// paths keeps only the paths between GPUs and the names in a picture. The placement of ranks depends
// on neither.
func (f Facts) paths() Facts {
	reduced := Facts{Error: f.Error, Notes: f.Notes}
	for _, g := range f.GPUs {
		reduced.GPUs = append(reduced.GPUs, GPU{
			PCI: g.PCI, Name: g.Name, Memory: g.Memory, Links: g.Links, Switched: g.Switched, Down: g.Down, Peers: g.Peers,
		})
	}
	return reduced
}
