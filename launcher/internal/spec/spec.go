// Package spec has the facts that more than one part of the launcher speaks of: each has one type, from the options
// over the frames between head and agent to the report. It knows no part that uses it.
package spec

import (
	"gorun/env/nccl"
	"gorun/placement"
)

// Start is the way in which a program becomes a process.
type Start uint8

const (
	// StartAuto decides from the file itself.
	StartAuto Start = iota
	// StartExec executes the file as it is (torchrun's --no-python).
	StartExec
	// StartPython runs the file by a Python interpreter with -u, run bit or not.
	StartPython
	// StartModule runs a Python module by name (-m).
	StartModule
)

// Program is how a node starts one of the job's programs.
type Program struct {
	Path string
	Argv []string
	// ScriptArg is where the program's own arguments begin in Argv.
	ScriptArg int
	Kind      string // for plans: "executable", "python script" …
	Build     bool   // it is compiled first
	// AssignsPort is the place ("file:line") at which a Python program's own text assigns
	// MASTER_PORT; "" for nowhere. Port is what it assigns, 0 where that is no number in the text.
	AssignsPort string
	Port        int
	// Regroups says that it makes process groups one after the other, all of them at Port.
	Regroups bool
	// MPI is the family of MPI libraries that it links ("Open MPI", "MPICH"), where there are several
	// programs; "": none that is known.
	MPI string
	// Code is 126 or 127 where it cannot be started; Error says why, and Hint what to do.
	Code        int
	Error, Hint string
}

// Facts are what a node says of itself.
type Facts struct {
	Host     string
	Machine  placement.Machine
	Programs []Program // in the order of the job's apps
	TempDir  string
	// LogDir is where the own command line of a node that joined wants log files; "": below TempDir.
	// Role is what that calls its ranks; "": as the job.
	LogDir, Role string
	Notes        []string // remarks on what could not be learned
	// Boot is what the kernel calls its present run: two nodes that say the same are one machine; "": not known.
	Boot string
	// Environ is the node's own environment, NAME=VALUE; of a node that joined only what the head decides about.
	Environ []string
	// Ranks is how many the own command line of a node that joined wants there, 0: as the head's says; or how many
	// devices the node has of those that the job counts.
	Ranks int
	// Task is set where the node is one process with one rank: several of them may be on one host.
	Task *Task
	// NCCL is what NCCL's settings depend on, RDMA the ports of RDMA devices, where there are GPUs.
	NCCL nccl.Host
	RDMA []placement.NIC
}

// Task is the place of a process that is one rank, as a resource manager gave it.
type Task struct {
	Rank, NumRanks        int // in the job
	LocalRank, LocalRanks int // on its host
	Node, NumNodes        int // its host among those of the job
}

// Opened is where node 0 serves the store.
type Opened struct {
	Addr  string // MASTER_ADDR
	Port  int    // MASTER_PORT
	Store string // host:port of gorun's own store
	RAS   int    // port for NCCL's processes on every node, 0: none
}
