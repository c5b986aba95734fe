// Package engine recognises resource managers (engines) such as Slurm, Flux, PBS and LSF. From the environment, and
// files that it names, it reads the hosts of the job and their slots, whether this process is one of several tasks, and
// which command starts agents on the hosts.
//
// Each engine is a row of one table and a file. The package starts nothing; all input comes through [World].
package engine

import (
	"path/filepath"

	"gorun/launcher/hosts"
)

// World gives access to everything that an engine may depend on.
type World struct {
	// Lookup returns a variable of the environment.
	Lookup func(name string) (value string, found bool)
	// ReadFile returns the content of a file that the engine wrote.
	ReadFile func(name string) ([]byte, error)
	// IsThisHost reports whether a name means the host of this process.
	IsThisHost func(name string) bool
	// LookPath finds a command as exec.LookPath does.
	LookPath func(name string) (path string, err error)
	// Output runs a command of the engine's that only reads, and returns its standard output. It may be nil.
	Output func(argv ...string) ([]byte, error)
	// IsUnknown reports whether a resolver says that no host has this name. It may be nil.
	IsUnknown func(name string) bool
}

// Found describes the job of an engine.
type Found struct {
	// Engine is its name in --engine: "slurm".
	Engine string
	// Job names the job for users: "Slurm job 17". JobID is the same in all processes of the job.
	Job, JobID string
	// Why names the variables that were found, for -v.
	Why string

	// Hosts are those of the allocation, or of Task's step, in the engine's order. Slots is 0 if the engine gives no
	// number of ranks. Here is only set if no agent is needed, because the only host is this one.
	Hosts []hosts.Host
	// From is the source of Hosts: "SLURM_JOB_NODELIST=n[1-2]".
	From string
	// SlotsFrom is the source of their slots: "SLURM_TASKS_PER_NODE=2(x2)"; "": From.
	SlotsFrom string
	// CPUsPerRank is the number of CPUs that the user requested for each task; 0: none.
	CPUsPerRank int
	// GPUsPerNode is the number of GPUs that each node of the allocation is known to have; 0: unknown.
	GPUsPerNode int

	// Task is this process's task; nil: the engine did not start it.
	Task *Task
	// Notes are for the user, one sentence each.
	Notes []string

	// Scheduler is nil if the engine has no such commands here.
	Scheduler *Scheduler

	title   string // the engine's name for users
	missing string // see Start
	// start returns the command that starts agents on some of Hosts; nil: SSH.
	start func(wanted []hosts.Host) Start
}

// Task is one of the processes that an engine started.
type Task struct {
	// Rank is from 0 to NumTasks-1, LocalRank from 0 to LocalTasks-1 on its node.
	Rank, NumTasks        int
	LocalRank, LocalTasks int
	// Node is from 0 to NumNodes-1; NodeID is the engine's name of the node.
	Node, NumNodes int
	NodeID         string
	// Munge reports whether the site has MUNGE, which authenticates users; MungeSocket "" is its default socket.
	Munge       bool
	MungeSocket string
	// Addr is the name or address of task 0's node; "": unknown.
	Addr string
	// Step is unique among the groups of tasks of all jobs: "17.0".
	Step string
	// Signals reports whether the engine signals all processes of a task, including ranks.
	Signals bool
}

// OnePerNode reports whether each node has one task, which can then start ranks of its own. Otherwise each task is one
// rank.
func (t *Task) OnePerNode() bool { return t.NumTasks == t.NumNodes }

// Start describes how to start agents on hosts.
type Start struct {
	// Engine and Job are those of Found; Title is the engine's name for users.
	Engine, Job, Title string
	// Once is one command that starts an agent on each host; the agent's command follows it. Its standard input reaches
	// every agent, unless ByFile. nil without one.
	Once []string
	// ByFile reports that agents get no input: their secret is in a file.
	ByFile bool
	// Drop are variables to hide from Once, possibly with a star at the end; Set are NAME=VALUE for it alone.
	Drop, Set []string
	// NodeIDs are variables of which the first one that is set is the Name of an agent's host. Empty: its hostname.
	NodeIDs []string
	// Bcast are options of Once that copy the agent's program to the nodes; nil: it cannot. {name} becomes an
	// unpredictable file name, from which the agent knows to remove the file.
	Bcast []string
	// Signals reports whether the engine signals all processes of an agent, including ranks. Else the agent forwards
	// signals.
	Signals bool
	// NodesMayFail reports that Once goes on with the other hosts' agents after one has failed.
	NodesMayFail bool

	// PerHost replaces ssh if Once is nil, as job.ReachSpec.Command does; nil: ssh.
	PerHost []string
	// Missing is the program whose absence in PATH leaves only ssh; "": none.
	Missing string
}

// Command returns the name of Once's program for users, also if a shell runs it several times.
func (s *Start) Command() string {
	switch {
	case len(s.Once) == 0:
		return ""
	case len(s.Once) > 3 && s.Once[0] == "sh" && s.Once[1] == "-c":
		return filepath.Base(s.Once[3]) // the script's $0
	}
	return filepath.Base(s.Once[0])
}

// Start returns how to start agents on some of the hosts.
func (f *Found) Start(wanted []hosts.Host) (s Start) {
	if f.start != nil {
		s = f.start(wanted)
	}
	s.Engine, s.Job, s.Title, s.Missing = f.Engine, f.Job, f.title, f.missing
	return s
}

// kind is one engine.
type kind struct {
	name  string   // in --engine
	title string   // for users
	vars  []string // set in its jobs; for messages
	// find returns nil if this is no job of the engine's, or if the reader has failed.
	find func(r *reader) *Found
}

// kinds lists the engines in the order in which they are looked for: those that run inside others come first.
var kinds = []kind{
	// Runs in allocations of Slurm and others.
	{name: "flux", title: "Flux", vars: []string{"FLUX_URI"}, find: findFlux},
	// Tasks have PBS_* or SLURM_*, too.
	{name: "pals", title: "PALS", vars: []string{"PALS_RANKID"}, find: findPALS},
	{name: "slurm", title: "Slurm", vars: []string{"SLURM_JOB_ID"}, find: findSlurm},
	{name: "pbs", title: "PBS", vars: []string{"PBS_JOBID", "PBS_NODEFILE"}, find: findPBS},
	{name: "lsf", title: "LSF", vars: []string{"LSB_JOBID", "LSB_MCPU_HOSTS"}, find: findLSF},
	{name: "sge", title: "Grid Engine", vars: []string{"SGE_ROOT", "JOB_ID", "PE_HOSTFILE"}, find: findSGE},
	{
		name: "mpi-operator", title: "MPI Operator",
		vars: []string{"KUBERNETES_SERVICE_HOST", "OMPI_MCA_orte_default_hostfile"}, find: findMPIOperator,
	},
	{
		name: "aws-batch", title: "AWS Batch", vars: []string{"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"},
		find: findBatch,
	},
	{name: "sagemaker", title: "SageMaker", vars: []string{"SM_HOSTS", "SM_CURRENT_HOST"}, find: findSageMaker},
}

// None is the name for no engine.
const None = "none"

// Names returns the values of --engine.
func Names() []string {
	names := make([]string, 0, len(kinds)+1)
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return append(names, None)
}
