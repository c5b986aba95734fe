package launcher

import (
	"slices"

	"gorun/launcher/doctor"
	"gorun/placement"
)

// HostsReport is the result of [CheckHosts].
type HostsReport struct {
	// Program is the program that was looked for, "" for none.
	Program string       `json:"program,omitempty"`
	Version string       `json:"-"`     // of this gorun
	Hosts   []HostReport `json:"hosts"` // in the order of the spec
	// Network is nil with fewer than two hosts.
	Network  *NetworkReport   `json:"network,omitempty"`
	Problems []doctor.Problem `json:"problems"` // of hosts and the network
}

// OK reports whether there are no problems but notes.
func (r *HostsReport) OK() bool {
	return !slices.ContainsFunc(r.Problems, func(p doctor.Problem) bool { return !p.Note })
}

// HostReport describes one host. Unknown values are zero.
type HostReport struct {
	Name    string  `json:"host"`           // as the user named it
	Here    bool    `json:"here,omitempty"` // gorun runs on it
	Reached bool    `json:"reached"`        // whether gorun could start an agent there
	Seconds float64 `json:"reach_seconds"`  // until its agent ran, or until the attempt failed
	// Step is where reaching the host failed; "" if it was reached.
	Step string `json:"step,omitempty"`

	Hostname     string `json:"hostname,omitempty"`      // its own name for itself
	Version      string `json:"gorun_version,omitempty"` // version of gorun on the host; absent if unknown
	Executable   string `json:"executable,omitempty"`    // gorun's path there
	Copied       bool   `json:"copied,omitempty"`        // gorun was copied there
	Architecture string `json:"architecture,omitempty"`  // such as "x86_64"
	Kernel       string `json:"kernel,omitempty"`        // release, such as "6.8.0-45-generic"
	CPUs         int    `json:"cpu_count,omitempty"`     // available to ranks
	// Clock is the offset of its clock from this host's; nil if unknown.
	Clock   *doctor.Clock      `json:"clock,omitempty"`
	Rooms   []doctor.DiskSpace `json:"disk_space,omitempty"`      // free space in the folders that gorun uses
	Limits  []LimitReport      `json:"limits,omitempty"`          // resource limits of ranks
	Dir     string             `json:"directory,omitempty"`       // the ranks' working directory
	Missing string             `json:"directory_error,omitempty"` // why Dir cannot be used
	Program *doctor.Program    `json:"program,omitempty"`         // the program of the command line; absent without one
	// GPUs have names and whether a process uses them.
	GPUs       []placement.GPU `json:"gpus,omitempty"`
	InfiniBand bool            `json:"infiniband,omitempty"` // whether an InfiniBand port is active
	Notes      []string        `json:"notes,omitempty"`      // what could not be determined
}

// LimitReport is a resource limit of ranks: "memlock" (bytes), "nofile" or "nproc".
type LimitReport struct {
	Name string `json:"name"` // "memlock", "nofile" or "nproc"
	doctor.Limit
}
