// Package plan computes the environment of each rank of a job, with a reason for every variable.
//
// There are two main kinds of variables. A setting (OMP_NUM_THREADS, NCCL_IB_HCA) describes the machine or the
// program. The user's value always takes precedence, and gorun sets it only if it is unset. An identity (RANK,
// PMI_RANK) identifies one process in one job. gorun's value always takes precedence, and gorun removes those
// of an outer launcher: an inherited RANK would make every rank rank 0. MASTER_ADDR and MASTER_PORT are
// requests, see [ClassRequest].
//
// One table, [Table], contains all variables. [Build] applies it and [Markdown] prints it. The package is
// pure: the same [Inputs] give the same [Environment].
package plan

import (
	"gorun/env/nccl"
	"gorun/placement"
)

// Inputs are the facts from which the ranks' environments are made.
type Inputs struct {
	// Inherited is the launcher's environment, as NAME=VALUE entries. If a name repeats, its last entry
	// counts.
	Inherited []string
	// Exports are the options `-x NAME` and `-x NAME=VALUE`, in command-line order.
	Exports []Export
	// LenientExports ignores an export that conflicts with a value that gorun gives a rank, and adds a note.
	// Otherwise such an export is an error.
	LenientExports bool
	// ExportsOnly makes ranks inherit nothing. They get gorun's own variables and Exports.
	ExportsOnly bool
	// ExportAll gives ranks on remote nodes all of Inherited except the variables of one host, instead of the
	// variables listed in forward.go.
	ExportAll bool
	// ExportUnlisted is ExportAll without variables that look like secrets. ExportAll takes precedence.
	ExportUnlisted bool

	// Engine reports that one command of a resource manager started all agents. Like with such commands, ranks
	// inherit as with ExportAll, including the manager's own variables. They also inherit ofEngine's variables
	// from the Environ of their node.
	Engine bool
	// SlurmNodes are the job's nodes in order, as a Slurm node list ("n[1-3]"). It is "" if not all nodes are
	// in a Slurm job.
	SlurmNodes string

	// Job is the ID of this job. Build appends it to the marker of the outer job.
	Job string
	// RunID is the job's name for its ranks. Role is the value of --role; "" means "default".
	RunID, Role string
	// Restarts is how many there were before, without those for more nodes. MaxRestarts is the limit.
	Restarts, MaxRestarts int
	// SignalsToHandle are the signals that the launcher forwards. An empty list means torchrun's default.
	SignalsToHandle []string

	// Store describes the rendezvous store.
	Store Store

	// VirtualLocalRank gives every rank LOCAL_RANK=0.
	VirtualLocalRank bool
	// Isolated reports that each rank sees only its own GPUs. VisibleWhy is the reason for the ranks' Visible.
	Isolated   bool
	VisibleWhy string

	// MPI describes MPI's start-up.
	MPI MPI

	// Tune selects the NCCL settings to add; "" means TuneAuto. Study configures TuneTextbook.
	Tune  Tune
	Study Study
	// RASAddr is the host:port where NCCL's processes answer status queries; "" means NCCL's default.
	RASAddr string
	// Dumps is a placeholder for the names of files of PyTorch's flight recorder, which nodes choose.
	Dumps string
	// JoinNodes formats node names for messages; nil joins them with commas.
	JoinNodes func(names []string) string

	// Nodes are the nodes of the job. Ranks are its ranks; Ranks[3] is rank 3.
	Nodes []Node
	Ranks []Rank
}

// Store describes the rendezvous store. Port is a string, since a plan can be printed before it is known.
type Store struct {
	Mode StoreMode `json:"mode"`        // "gorun": gorun serves it; "rank0": rank 0 does
	Why  string    `json:"reason"`      // why this mode
	Addr string    `json:"address"`     // MASTER_ADDR
	Port string    `json:"port"`        // MASTER_PORT
	Own  string    `json:"own_address"` // host:port of gorun's own store
}

// StoreMode selects the process that serves the store.
type StoreMode string

// The store modes.
const (
	StoreGorun StoreMode = "gorun"
	StoreRank0 StoreMode = "rank0"
)

// Endpoint is the address at which other nodes reach a node. Zero values mean unknown.
type Endpoint struct {
	Address   string `json:"address,omitempty"`   // IP address; absent with one node
	Interface string `json:"interface,omitempty"` // the network interface of Address, such as "eth0"
	Mbps      int    `json:"-"`                   // the speed of Interface in Mbit/s
}

// Node has what the ranks of one node share.
type Node struct {
	// Threads is the number of threads for each rank (OMP_NUM_THREADS); 0 means unknown and unset. Why
	// explains it: "8 CPUs ÷ 4 ranks".
	Threads int
	Why     string

	// Crowded reports that the node has more ranks than CPUs.
	Crowded bool

	// Remote reports that the node is a different host than the launcher's. Its ranks get the variables of
	// Inherited that forward.go lists, and [OwnOfHost] or [OwnInEngine] of Environ.
	Remote bool
	// Joined reports that a user started gorun on the node with a separate command. Its ranks inherit all of
	// Environ and nothing of Inherited.
	Joined bool
	// Environ is the node's own environment, as NAME=VALUE entries.
	Environ []string
	// Part marks the job's processes on this node; it is "" with one node.
	Part string
	// KeyFile is the file with the job's key on the node; it is "" with one node.
	KeyFile string
	Endpoint
	// Task is set if the node is one process of a host that may have several.
	Task *Task
	// Role is the --role of the node's own command; "" means Inputs.Role.
	Role string

	// Name is the node's name for messages.
	Name string
	// Host, RDMA and GPUs determine its NCCL settings. RDMA are the ports of RDMA devices. Host and RDMA are
	// unknown if the host has no GPUs.
	Host nccl.Host
	RDMA []placement.NIC
	GPUs []placement.GPU
}

// Task locates a process with one rank, as reported by a resource manager.
type Task struct {
	// Group is the number of its host, out of NumGroups. LocalRanks is the number of ranks on that host.
	Group, NumGroups, LocalRanks int
}

// Rank has the values of one rank.
type Rank struct {
	Node      int
	LocalRank int
	// MPI identifies the rank in its MPI_COMM_WORLD, if the job has worlds.
	MPI InWorld
	// ErrorFile is the file to which PyTorch writes an uncaught exception; "" means none.
	ErrorFile string
	// Device is the only GPU that the rank sees, as an entry of CUDA_VISIBLE_DEVICES (--virtual-local-rank);
	// "" hides nothing.
	Device string
	// Visible are the variables that select the rank's GPUs, by name. They override the user's values, which
	// gorun already considered when it chose the GPUs.
	Visible map[string]string
	// Threads and Why replace the node's values for a rank that is bound to CPUs. Threads is 0 otherwise.
	Threads int
	Why     string
	// GoThreads is GOMAXPROCS; 0 means that Go finds the right number itself.
	GoThreads int
	// Dir is the rank's working directory if the user chose one; "" means the launcher's.
	Dir string
	// Exports apply to this rank alone and override Inputs.Exports.
	Exports []Export
}

// Environment is the result: the environments of all ranks.
type Environment struct {
	// Common is shared by all ranks, inherited variables first.
	Common []Variable `json:"common"`
	// Nodes has the additional variables of each node's ranks. It is empty with one node.
	Nodes [][]Variable `json:"nodes,omitempty"`
	// Ranks has the additional variables of each rank; Ranks[3] is rank 3. Each name occurs in at most one of
	// the three for any rank.
	Ranks [][]Variable `json:"ranks"`
	// Withheld are the inherited variables that ranks on remote nodes get only with -x. It omits the variables
	// of one host.
	Withheld []string `json:"withheld,omitempty"`
	// Removed are inherited variables that ranks do not get, or get with another value.
	Removed []Removal `json:"removed,omitempty"`
	// Left are known settings that gorun does not make, in the order of the table.
	Left []Left `json:"left,omitempty"`
	// Conf are the settings that configuration files add, in the order of the nodes and their files. JSON
	// output omits them, since they may contain secrets.
	Conf []ConfSetting `json:"-"`
	// Notes are for the user, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// ConfSetting is a line of a configuration file that takes effect, because ranks do not have the variable.
type ConfSetting struct {
	nccl.Assignment
	// Nodes are the nodes whose file has this line, in order.
	Nodes []int
}

// Shown is the value for people. It hides secrets.
func (c ConfSetting) Shown() string { return Variable{Name: c.Name, Value: c.Value}.Shown() }

// Variable is one environment variable of a rank.
type Variable struct {
	Name   string `json:"name"`             // such as "MASTER_ADDR"
	Value  string `json:"value"`            // "<hidden>" if it is a secret
	Origin Origin `json:"origin"`           // "inherited", "-x" or "gorun"
	Reason string `json:"reason,omitempty"` // short clause such as "ranks of this job"
	Level  Level  `json:"level,omitempty"`  // importance of a setting that gorun makes; else ""
}

// Entry returns NAME=VALUE.
func (v Variable) Entry() string { return v.Name + "=" + v.Value }

// Entries returns NAME=VALUE for each variable.
func Entries(vars []Variable) []string {
	entries := make([]string, len(vars))
	for i, v := range vars {
		entries[i] = v.Entry()
	}
	return entries
}

// Origin is the source of a variable's value.
type Origin string

const (
	// Inherited: from the launcher's environment.
	Inherited Origin = "inherited"
	// Exported: from the option -x.
	Exported Origin = "-x"
	// Gorun: from the launcher itself.
	Gorun Origin = "gorun"
)

// Removal is an inherited variable that ranks do not get.
type Removal struct {
	Name   string `json:"name"`   // of the variable
	Reason string `json:"reason"` // why ranks do not get it
}

// Export is one -x option.
type Export struct {
	Name     string // or PREFIX* without a value: all variables with the prefix
	Value    string
	HasValue bool // the option was NAME=VALUE, else it exports the launcher's value
	Remove   bool // the option removes the variable
	// From is the option that set it; "" means -x with the name.
	From string
}

// origin returns the option without its value, for the variable's reason.
func (e Export) origin() string {
	if e.From != "" {
		return e.From
	}
	return "-x " + e.Name
}

// String returns the option as the user typed it.
func (e Export) String() string {
	if e.From != "" {
		return e.From
	}
	if e.HasValue {
		return "-x " + e.Name + "=" + e.Value
	}
	return "-x " + e.Name
}
