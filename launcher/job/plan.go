package job

import (
	"time"

	"gorun/env/plan"
	"gorun/placement"
)

// Facts are what a node said of itself.
type Facts struct {
	Host     string
	Machine  placement.Machine
	Programs []Program // as the node resolved Spec.Apps
	TempDir  string
	Notes    []string // remarks on what the node could not learn
}

// Program is how a node starts one of the wish's programs.
type Program struct {
	Path string
	Argv []string
	// ScriptArg is where the program's own arguments begin in Argv.
	ScriptArg int
	Kind      string
	Build     bool // it is compiled first
	// AssignsPort is the place at which a Python program's own text assigns
	// MASTER_PORT; "" for nowhere.
	AssignsPort string
	// Port is what it assigns, 0 where that is no number in the text.
	Port int
}

// Opened is where node 0 serves the store.
type Opened struct {
	Addr  string
	Port  int
	Store string // host:port of gorun's own
}

// Plan is the decision about a job: everything about every rank, before the
// first exists.
type Plan struct {
	JobID   string          `json:"job"`
	RunID   string          `json:"run_id"`
	Role    string          `json:"role"`
	Why     string          `json:"why"` // how the number of ranks came about
	Nodes   []Node          `json:"nodes"`
	Apps    []AppRun        `json:"apps"`
	Ranks   []Rank          `json:"ranks"`
	Store   Store           `json:"store"`
	Common  []plan.Variable `json:"environment"` // what all ranks share
	Removed []plan.Removal  `json:"removed,omitempty"`
	Logs    *Logs           `json:"logs,omitempty"`
	// PrivateDir is where ranks leave error files when no log files are wished.
	PrivateDir string `json:"private_dir,omitempty"`
	// Stdin says which ranks read the launcher's standard input.
	Stdin string `json:"stdin"`
	// Grace is the time that ranks have to end, Timeout the job's deadline, 0: none.
	Grace   time.Duration `json:"grace_ns"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Notes   []string      `json:"notes,omitempty"`

	// HangTimeout is how long nothing may be seen to go on, 0: for ever.
	HangTimeout time.Duration `json:"hang_timeout_ns,omitempty"`
	MaxRestarts int           `json:"max_restarts,omitempty"`
	// Attempt counts restarts.
	Attempt int `json:"attempt,omitempty"`

	supervision SupervisorConfig
}

// Node is one host of a job.
type Node struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
	// CPUs are those that its ranks may use, as "0-3,8"; "" where nobody asked.
	CPUs string `json:"cpus,omitempty"`
}

// AppRun is one program of a job.
type AppRun struct {
	Path     string   `json:"path"`
	Argv     []string `json:"argv"`
	Dir      string   `json:"dir,omitempty"`
	Kind     string   `json:"kind"`
	Build    bool     `json:"build,omitempty"`
	NumRanks int      `json:"ranks"`
}

// Rank is one rank of a job.
type Rank struct {
	Rank      int `json:"rank"`
	Node      int `json:"node"`
	LocalRank int `json:"local_rank"`
	App       int `json:"app"`
	// GPU is the one that is the rank's, or several: "3", "4,5", or UUIDs of parts.
	// Others can be seen unless they are hidden by the rank's environment.
	GPU string `json:"gpu,omitempty"`
	// CPUs are those to which it is bound, Memories the NUMA nodes for which
	// MemoryPolicy holds; Reason says why.
	CPUs         placement.CPUSet `json:"cpus,omitzero"`
	Memories     placement.CPUSet `json:"memories,omitzero"`
	MemoryPolicy MemoryPolicy     `json:"memory_policy,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	// GPUs are those that GPU names.
	GPUs []placement.GPU `json:"-"`
	// Argv is the rank's own, where it differs from its app's.
	Argv      []string        `json:"argv,omitempty"`
	Env       []plan.Variable `json:"environment"` // what differs from Common
	ErrorFile string          `json:"error_file,omitempty"`

	threads int // that keep its CPUs busy, 0: not known
}

// Store is where ranks meet.
type Store struct {
	Mode string `json:"mode"` // gorun or rank0
	Why  string `json:"why"`
	Addr string `json:"addr"`
	Port string `json:"port"`
	Own  string `json:"own"` // host:port of gorun's own store
}

// Logs is what goes to files and where.
type Logs struct {
	Dir             string    `json:"dir"`                // of this attempt
	Base            string    `json:"base"`               // of the job
	Redirect        []Streams `json:"redirect,omitempty"` // by local rank, as many as a node has at most
	Tee             []Streams `json:"tee,omitempty"`
	DuplicateStdout []string  `json:"duplicate_stdout,omitempty"`
	DuplicateStderr []string  `json:"duplicate_stderr,omitempty"`
}

// Files reports whether there are log files: the null device as a log directory
// means none.
func (l *Logs) Files() bool { return l.Base != nullDevice }

// AtStart stands for what only a start can tell.
const AtStart = "<at start>"

// Supervision is what the supervisor of this plan has to know.
func (p *Plan) Supervision() SupervisorConfig { return p.supervision }
