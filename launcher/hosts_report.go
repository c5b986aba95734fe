package launcher

import (
	"slices"

	"gorun/launcher/doctor"
	"gorun/placement"
)

// HostsReport is what [CheckHosts] found.
type HostsReport struct {
	// Program is the one that was looked for, as the user named it; "" for none.
	Program string       `json:"program,omitempty"`
	Version string       `json:"version"` // of this gorun
	Hosts   []HostReport `json:"hosts"`   // in the order in which they were named
	// Network is who reaches whom, nil with fewer than two hosts to be asked.
	Network  *NetworkReport   `json:"network,omitempty"`
	Problems []doctor.Problem `json:"problems"`
}

// OK reports whether nothing is wrong; remarks are no problem.
func (r *HostsReport) OK() bool {
	return !slices.ContainsFunc(r.Problems, func(p doctor.Problem) bool { return !p.Note })
}

// HostReport is one host. What could not be learned has its zero value.
type HostReport struct {
	Name    string  `json:"host"`
	Here    bool    `json:"here,omitempty"` // it is the one that gorun runs on
	Reached bool    `json:"reached"`
	Seconds float64 `json:"seconds"` // until its agent ran, or the attempt had failed
	// Step is where reaching it stopped, as in [HostProgress]; "" where it is reached.
	Step string `json:"step,omitempty"`

	Hostname     string `json:"hostname,omitempty"` // what it calls itself
	Version      string `json:"version,omitempty"`
	Executable   string `json:"executable,omitempty"` // gorun's file there
	Copied       bool   `json:"copied,omitempty"`     // gorun had to be sent there
	Architecture string `json:"architecture,omitempty"`
	Kernel       string `json:"kernel,omitempty"`
	CPUs         int    `json:"cpus,omitempty"` // that ranks may use
	// Clock is by how much its clock is ahead of this host's; nil: not known.
	Clock   *doctor.Clock      `json:"clock,omitempty"`
	Rooms   []doctor.DiskSpace `json:"rooms,omitempty"`
	Limits  []LimitReport      `json:"limits,omitempty"`
	Dir     string             `json:"dir,omitempty"`     // the ranks' working directory
	Missing string             `json:"missing,omitempty"` // why it cannot be that
	Program *doctor.Program    `json:"program,omitempty"`
	// GPUs have their names and whether a process uses them.
	GPUs       []placement.GPU `json:"gpus,omitempty"`
	InfiniBand bool            `json:"infiniband,omitempty"`
	Notes      []string        `json:"notes,omitempty"` // what could not be learned of it
}

// LimitReport is a limit that ranks have: "memlock" (bytes), "nofile", "nproc".
type LimitReport struct {
	Name string `json:"name"`
	doctor.Limit
}
