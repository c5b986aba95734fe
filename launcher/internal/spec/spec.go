// Package spec has the facts that several parts of the launcher share: each has one type, from the options through the
// frames between head and agent to the report. It imports no part that uses it.
package spec

import (
	"gorun/env/nccl"
	"gorun/placement"
)

// Start is how a program is started.
type Start uint8

const (
	// StartAuto decides from the file itself.
	StartAuto Start = iota
	// StartExec executes the file (torchrun's --no-python).
	StartExec
	// StartPython runs the file by a Python interpreter with -u, executable or not.
	StartPython
	// StartModule runs a Python module by name (-m).
	StartModule
)

// Command is one of the job's programs as the user named it.
type Command struct {
	// Name is a file, a name in PATH, or a module with StartModule.
	Name string
	// Args are the program's own arguments.
	Args  []string
	Start Start
	// Interpreter is the Python to use, a path or a name in PATH; "" finds one.
	Interpreter string
	// Dir is the ranks' working directory; "" is the launcher's.
	Dir string
	// Path are directories to search before those in PATH, separated by colons.
	Path string
}

// Program is how a node starts one of the job's programs.
type Program struct {
	Path string
	Argv []string
	// ScriptArg is the index in Argv of the program's own first argument.
	ScriptArg int
	Kind      string // "executable", "Python script" …
	Build     bool   // compile it first
	// AssignsPort is where ("file:line") the text of a Python program assigns MASTER_PORT; "" if it does not. Port is
	// the number assigned, 0 if the text has none.
	AssignsPort string
	Port        int
	// Regroups reports that it makes several process groups, one after the other, at Port.
	Regroups bool
	// MPI is the family of MPI libraries that it links ("Open MPI", "MPICH"); "" if that is not known, or it is the job's
	// only program.
	MPI string
	// Code is 126 or 127 if it cannot be started; Error is why, and Hint what to try.
	Code        int
	Error, Hint string
}

// Facts are what a node reports about itself.
type Facts struct {
	Host     string
	Machine  placement.Machine
	Programs []Program // in the order of the job's apps
	TempDir  string
	// LogDir and Role are from the command line of a node that joined: its directory for log files, "" for one in
	// TempDir, and its role, "" for the job's.
	LogDir, Role string
	Notes        []string // on facts that are not known
	// Boot is the kernel's boot id: two nodes with the same one are one machine; "": not known.
	Boot string
	// Environ is the node's environment, NAME=VALUE; of a node that joined only what the head decides about.
	Environ []string
	// Ranks is the number of ranks in the command line of a node that joined, 0: the head's; or the number of devices of
	// the kind that the job counts.
	Ranks int
	// Task is set where the node is a task: several may be on one host.
	Task *Task
	// NCCL is what NCCL's settings depend on, RDMA the ports of RDMA devices, if there are GPUs.
	NCCL nccl.Host
	RDMA []placement.NIC
}

// Task is a process that a resource manager started as one rank.
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
	RAS   int    // port of NCCL's RAS on every node, 0: none
}
