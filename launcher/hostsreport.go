package launcher

import (
	"cmp"
	"slices"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// HostsReport is what [CheckHosts] found.
type HostsReport struct {
	// Program is the one that was looked for, as the user named it; "" for none.
	Program string       `json:"program,omitempty"`
	Version string       `json:"version"` // of this gorun
	Hosts   []HostReport `json:"hosts"`   // in the order in which they were named
	// Network is who reaches whom, nil with fewer than two hosts to be asked.
	Network  *NetworkReport `json:"network,omitempty"`
	Problems []HostsProblem `json:"problems"`
}

// OK reports whether nothing is wrong; remarks are no problem.
func (r *HostsReport) OK() bool {
	return !slices.ContainsFunc(r.Problems, func(p HostsProblem) bool { return !p.Remark })
}

// HostsProblem is something that is wrong, or strange, with some of the hosts.
type HostsProblem struct {
	// Check names what was looked at where it is the network: "reach", "mtu", "loss",
	// "speed", "interface".
	Check string   `json:"check,omitempty"`
	Hosts []string `json:"hosts"`
	Text  string   `json:"text"`
	// Advice is what to do, in words, where Hint is a command; of the network alone.
	Advice string `json:"advice,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Remark says that a job would run all the same.
	Remark bool `json:"remark,omitempty"`

	general string // Text without what is of one host alone; "": Text
}

// String names the hosts, folded, and what they have.
func (p *HostsProblem) String() string { return hosts.Fold(p.Hosts) + ": " + p.Text }

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
	Clock   *ClockReport   `json:"clock,omitempty"`
	Rooms   []RoomReport   `json:"rooms,omitempty"`
	Limits  []LimitReport  `json:"limits,omitempty"`
	Dir     string         `json:"dir,omitempty"`     // the ranks' working directory
	Missing string         `json:"missing,omitempty"` // why it cannot be that
	Program *ProgramReport `json:"program,omitempty"`
	// GPUs have their names and whether a process uses them.
	GPUs       []placement.GPU `json:"gpus,omitempty"`
	InfiniBand bool            `json:"infiniband,omitempty"`
	Notes      []string        `json:"notes,omitempty"` // what could not be learned of it
}

// ClockReport is a clock in seconds: its true offset differs from Ahead by less than
// Uncertainty.
type ClockReport struct {
	Ahead       float64 `json:"ahead"`
	Uncertainty float64 `json:"uncertainty"`
}

// RoomReport is the free space of a directory in bytes.
type RoomReport struct {
	Purpose string `json:"purpose"` // "cache" for gorun's copies, "temporary files"
	Path    string `json:"path"`
	Free    int64  `json:"free"`
	Total   int64  `json:"total"`
	Error   string `json:"error,omitempty"`
}

// LimitReport is a limit that ranks have, -1 for none.
type LimitReport struct {
	Name string `json:"name"` // "memlock" (bytes), "nofile", "nproc"
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// ProgramReport is the program on one host.
type ProgramReport struct {
	Kind string `json:"kind,omitempty"`
	Path string `json:"path,omitempty"` // of the script where it is one
	Size int64  `json:"size,omitempty"`
	// SHA256 is the hash of its first GiB, "" where nobody could read it.
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// problems collects what is wrong; what is the same on several hosts stands there once.
type problems []HostsProblem

func (list *problems) add(p HostsProblem) {
	p.general = cmp.Or(p.general, p.Text)
	for i, q := range *list {
		if q.general == p.general && q.Remark == p.Remark && (q.Hint == p.Hint || q.Text != p.Text) {
			(*list)[i].Hosts, (*list)[i].Text = append(q.Hosts, p.Hosts...), p.general
			return
		}
	}
	*list = append(*list, p)
}
