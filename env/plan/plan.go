// Package plan decides what each rank of a job finds in its environment, with a
// reason for every variable.
//
// It knows two kinds of variables. A setting (OMP_NUM_THREADS, NCCL_IB_HCA) is
// knowledge about the machine or the program: the user's value always wins, and
// gorun fills in only what nobody set. An identity (RANK, PMI_RANK) is the place
// of one process in one job: gorun's value always wins, and what an outer
// launcher left behind is removed, for an inherited RANK would give N times
// rank 0. MASTER_ADDR and MASTER_PORT are a [Wish].
//
// All of it stands in one table, [Table]: [Build] obeys it and [Markdown] prints
// it. The package is pure: the same [Inputs] give the same [Environment].
package plan

import (
	"gorun/env/nccl"
	"gorun/placement"
)

// Inputs are the facts from which the ranks' environments are made.
type Inputs struct {
	// Inherited is the launcher's environment, NAME=VALUE entries; of two for one
	// name the last counts.
	Inherited []string
	// Exports are `-x NAME` and `-x NAME=VALUE`, in the order of the command line.
	Exports []Export
	// LenientExports has an export of another value than the one that gorun itself gives a rank count for
	// nothing, and a note say so; without it such an export is refused.
	LenientExports bool
	// ExportsOnly has ranks inherit nothing; what gorun itself gives them, and Exports, they
	// get.
	ExportsOnly bool
	// ExportAll gives ranks on remote nodes all of Inherited but what belongs to one
	// host, instead of the variables that forward.go lists.
	ExportAll bool
	// ExportUnlisted does the same but for what looks like a secret; of both ExportAll counts.
	ExportUnlisted bool

	// Engine says that one command of a resource manager's started all agents. Ranks
	// inherit as with ExportAll, for so such commands do it, the manager's own variables
	// too; and what forward.go lists of an engine's from the Environ of their node.
	Engine bool
	// SlurmNodes are the job's nodes, in their order, as Slurm writes a list ("n[1-3]");
	// "" where not all of them are in a job of Slurm's.
	SlurmNodes string

	// Job is the id of this job alone; Build puts it behind the marker of the job
	// that gorun itself runs in.
	Job string
	// RunID names the job for its ranks, Role is --role; "" is "default".
	RunID, Role string
	// Attempt counts restarts, MaxRestarts is their limit.
	Attempt, MaxRestarts int
	// SignalsToHandle are the signals that the launcher passes on; none means
	// torchrun's default.
	SignalsToHandle []string

	// Store is where ranks meet.
	Store Store

	// VirtualLocalRank gives every rank LOCAL_RANK=0.
	VirtualLocalRank bool
	// Isolated says that each rank sees its own GPUs alone, and VisibleWhy why the
	// ranks' Visible hold.
	Isolated   bool
	VisibleWhy string

	// MPI is what ranks are told of MPI's start-up.
	MPI MPI

	// Tune says which settings of NCCL's are added; "" is TuneAuto. Study is what
	// TuneTextbook goes by.
	Tune  Tune
	Study Study
	// RASAddr is host:port at which NCCL's processes of this job answer questions; "":
	// as NCCL has it.
	RASAddr string
	// Fold writes names of nodes for messages, nil joins them with commas.
	JoinNodes func(names []string) string

	// Nodes are the nodes of the job, Ranks its ranks: Ranks[3] is rank 3.
	Nodes []Node
	Ranks []Rank
}

// Store is where ranks meet. Its port is a text, so that a plan can be printed before it is known.
type Store struct {
	Mode StoreMode `json:"mode"`
	Why  string    `json:"why"`
	Addr string    `json:"addr"` // MASTER_ADDR
	Port string    `json:"port"` // MASTER_PORT
	Own  string    `json:"own"`  // host:port of gorun's own store
}

// StoreMode says who serves the store.
type StoreMode string

// The modes.
const (
	StoreGorun StoreMode = "gorun"
	StoreRank0 StoreMode = "rank0"
)

// Endpoint is where other nodes reach a node. Zero values are unknown.
type Endpoint struct {
	Address   string `json:"address,omitempty"`
	Interface string `json:"interface,omitempty"` // the network interface of Address, such as "eth0"
	Mbps      int    `json:"-"`                   // the speed of Interface in Mbit/s
}

// Node is what ranks of one node share.
type Node struct {
	// Threads is how many threads each rank may run (OMP_NUM_THREADS), and Why is
	// how that came about: "8 CPUs ÷ 4 ranks". 0 threads: not known, and not set.
	Threads int
	Why     string

	// Crowded says that its ranks are more than the CPUs that they may use.
	Crowded bool

	// Remote says that the node is another host than the launcher's: of Inherited its
	// ranks get what forward.go lists, and [OwnOfHost] or [OwnInEngine] of Environ.
	Remote bool
	// Joined says that the node's ranks inherit all of Environ and nothing of
	// Inherited: somebody started gorun there by its own command line.
	Joined bool
	// Environ is the node's own environment, NAME=VALUE entries.
	Environ []string
	// Part marks the job's processes on this node; "" with one node.
	Part string
	// KeyFile is where the ranks of the node find the job's key; "" with one node.
	KeyFile string
	Endpoint
	// Seat is set where the node is one process of a host that may have several.
	Task *Task
	// Role is what the node's own command line has for Inputs.Role; "": the same.
	Role string

	// Name is the node's, for messages.
	Name string
	// Host, RDMA and GPUs are what its settings of NCCL depend on; RDMA has the ports of
	// RDMA devices, and neither is known where the host has no GPUs.
	Host nccl.Host
	RDMA []placement.NIC
	GPUs []placement.GPU
}

// Seat is where a process with one rank sits, as a resource manager says.
type Task struct {
	// Group is the number of its host, of NumGroups, and LocalRanks how many ranks that
	// has.
	Group, NumGroups, LocalRanks int
}

// Rank is what one rank has of its own.
type Rank struct {
	Node      int
	LocalRank int
	// MPI is its place in its MPI_COMM_WORLD, where there are some.
	MPI InWorld
	// ErrorFile is where PyTorch writes an uncaught exception to; "" for nowhere.
	ErrorFile string
	// Device is the only GPU that the rank sees, as an entry of
	// CUDA_VISIBLE_DEVICES (--virtual-local-rank). "" hides nothing.
	Device string
	// Visible are the variables that decide which GPUs the rank sees, by name. They
	// beat what the user set: it was heard when the GPUs were chosen.
	Visible map[string]string
	// Threads and Why are the rank's own where it is bound to CPUs; 0: its node's.
	Threads int
	Why     string
	// GoThreads is GOMAXPROCS; 0: Go finds the right number itself.
	GoThreads int
	// Dir is the rank's working directory where the user chose one; "" is the
	// launcher's.
	Dir string
	// Exports are those of the rank alone, which win over Inputs.Exports.
	Exports []Export
}

// Environment is what the ranks find.
type Environment struct {
	// Common is what all ranks share, inherited variables first.
	Common []Variable `json:"common"`
	// Nodes is what the ranks of each node share besides; with one node it is empty.
	Nodes [][]Variable `json:"nodes,omitempty"`
	// Ranks is what each rank has besides, Ranks[3] for rank 3. No rank has a name in
	// two of the three.
	Ranks [][]Variable `json:"ranks"`
	// Withheld are the names of inherited variables that ranks on remote nodes do not
	// get unless -x names them; those that belong to one host are not listed.
	Withheld []string `json:"withheld,omitempty"`
	// Removed are inherited variables that ranks do not get, or not with that value.
	Removed []Removal `json:"removed,omitempty"`
	// Left are settings that gorun knows and leaves alone, in the table's order.
	Left []Left `json:"left,omitempty"`
	// Conf is what files of settings add on the nodes, in the order of the nodes and their
	// files. It may have secrets, so that it is not part of what is printed as data.
	Conf []ConfSetting `json:"-"`
	// Notes are nodeNotes that the user should see, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// ConfSetting is a line of a file of settings that NCCL obeys, as ranks have no such
// variable.
type ConfSetting struct {
	Name, Value, File string
	// Line counts from 1.
	Line int
	// Nodes have this line, in their order.
	Nodes []int
}

// Shown is the value for people: that of what looks like a secret is hidden.
func (c ConfSetting) Shown() string { return Variable{Name: c.Name, Value: c.Value}.Shown() }

// Variable is one variable of a rank's environment.
type Variable struct {
	Name   string `json:"n"`
	Value  string `json:"v"`
	Origin Origin `json:"o"`
	Reason string `json:"r,omitempty"` // a short clause: "ranks of this job"
	Level  Level  `json:"l,omitempty"` // how much a setting of gorun's matters; "": no such
}

// Entry is the variable as a process gets it: NAME=VALUE.
func (v Variable) Entry() string { return v.Name + "=" + v.Value }

// Entries are the variables as a process gets them.
func Entries(vars []Variable) []string {
	entries := make([]string, len(vars))
	for i, v := range vars {
		entries[i] = v.Entry()
	}
	return entries
}

// Origin tells who gave a variable its value.
type Origin string

const (
	// Inherited: it was in the launcher's environment.
	Inherited Origin = "inherited"
	// Exported: the user gave it with -x.
	Exported Origin = "-x"
	// Gorun: the launcher set it.
	Gorun Origin = "gorun"
)

// Removal is an inherited variable that ranks do not get.
type Removal struct {
	Name   string `json:"n"`
	Reason string `json:"r"`
}

// Export is one -x option.
type Export struct {
	Name     string // may end in * without a value: all variables that begin so
	Value    string
	HasValue bool // NAME=VALUE was given; else the launcher's own value is meant
	Remove   bool // ranks do not get the variable
	// From is the option in the user's words; "" is -x with the name.
	From string
}

// origin is the option without its value, for the variable's reason.
func (e Export) origin() string {
	if e.From != "" {
		return e.From
	}
	return "-x " + e.Name
}

// String is the option as the user typed it.
func (e Export) String() string {
	if e.From != "" {
		return e.From
	}
	if e.HasValue {
		return "-x " + e.Name + "=" + e.Value
	}
	return "-x " + e.Name
}
