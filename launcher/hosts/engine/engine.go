// Package engine knows the resource managers in whose allocations gorun runs: Slurm,
// Flux, PBS, LSF and others. It reads what they say in the environment, and in files
// that the environment names, and tells which hosts the job has, with how many slots,
// whether this process is one of several that the engine started, and by which command
// of the engine's agents come to the hosts.
//
// Each engine is a row of one table and a file of its own. The package is pure: it
// starts nothing, and what it wants to know of the world comes through [World].
package engine

import (
	"path/filepath"

	"gorun/launcher/hosts"
)

// World is what an engine may depend on.
type World struct {
	// Lookup returns a variable of the environment.
	Lookup func(name string) (value string, found bool)
	// ReadFile returns the content of a file that the engine wrote.
	ReadFile func(name string) ([]byte, error)
	// IsThisHost reports whether a name means the host that this process runs on.
	IsThisHost func(name string) bool
	// LookPath finds a command as exec.LookPath does.
	LookPath func(name string) (path string, err error)
	// Output runs a command of the engine's that only reads, and returns its standard
	// output: Flux says by a command what others say by variables. nil: none can be run.
	Output func(argv ...string) ([]byte, error)
	// IsUnknown reports whether a resolver said that there is no host of a name. nil: no
	// name is taken for unknown.
	IsUnknown func(name string) bool
}

// Found is what an engine said.
type Found struct {
	// Engine is its name, as --engine takes it: "slurm".
	Engine string
	// Job names the job for people: "Slurm job 17". JobID is the engine's own word,
	// which is the same in all processes of the job.
	Job, JobID string
	// Why says by which variables it was found, for -v.
	Why string

	// Hosts are those of the allocation, or of the step that Task is one of, in the
	// engine's order. Slots is 0 where the engine does not say, or where its number
	// does not count ranks. Address is open; Here is, too, but where no agent comes to
	// the only host, which is then this one.
	Hosts []hosts.Host
	// From says where they came from, in the user's words: "SLURM_JOB_NODELIST=n[1-2]".
	From string
	// SlotsFrom says the same of their slots, "SLURM_TASKS_PER_NODE=2(x2)"; "": From does.
	SlotsFrom string
	// CPUsPerRank is what the user asked the engine for, for each of its tasks; 0: nothing.
	CPUsPerRank int

	// Task is set where the engine started several of this process: it is one of them.
	Task *Task
	// Notes are remarks that the user should see, one sentence each.
	Notes []string

	title string // the engine's name as people write it
	// start makes the command by which agents come to some of Hosts.
	start func(wanted []hosts.Host) Start
}

// Task is this process's place among those that the engine started.
type Task struct {
	// Rank is its number, from 0, of NumTasks; LocalRank that on its node, of LocalTasks.
	Rank, NumTasks        int
	LocalRank, LocalTasks int
	// Node is the number of its node, from 0, of NumNodes, and NodeID what the engine calls it.
	Node, NumNodes int
	NodeID         string
	// Munge says that the site has MUNGE, which vouches for users, and MungeSocket where
	// it listens; "": where it does by default.
	Munge       bool
	MungeSocket string
	// Addr is the name or address of node 0, where each node has one task; else of the
	// node that task 0 is on. "": the engine does not say.
	Addr string
	// Step tells this group of tasks from others of the same job: "17.0".
	Step string
	// Signals says that the engine signals all processes of a task, ranks too.
	Signals bool
}

// OnePerNode reports whether no node has two of the tasks: each of them can then have
// ranks of its own. Otherwise each task is one rank.
func (t *Task) OnePerNode() bool { return t.NumTasks == t.NumNodes }

// Start is how agents come to hosts.
type Start struct {
	// Engine and Job are those of Found; Title is the engine's name as people write it.
	Engine, Job, Title string
	// Once is one command that starts an agent on each host of the job, all at once;
	// the agent's own words follow it. Its standard input reaches every agent, unless
	// ByFile. nil: there is none.
	Once []string
	// ByFile says that the agents read nothing: their secret lies in a file.
	ByFile bool
	// Drop are variables that Once must not see, "SLURM_CPU_BIND*" is several; Set are
	// NAME=VALUE for it alone.
	Drop, Set []string
	// NodeIDs are variables by the first of which an agent knows what the engine calls
	// its node, which is the Name of a host. None: its host's own name.
	NodeIDs []string
	// Bcast are words of Once's that have the engine bring the agent's program to the
	// nodes first; they go before the program, and nil says that it cannot. A name that
	// nobody can guess comes where {name} stands, by which the agent knows a file that it
	// has to remove.
	Bcast []string
	// Signals says that the engine signals all processes of an agent, ranks too; else the
	// agent passes on what it gets.
	Signals bool

	// PerHost is a command that stands for ssh where Once is nil, as job.ReachSpec's
	// Command; nil: ssh itself.
	PerHost []string
}

// Command is the name of Once's program for people, which a shell may start several times.
func (s *Start) Command() string {
	switch {
	case len(s.Once) == 0:
		return ""
	case len(s.Once) > 3 && s.Once[0] == "sh" && s.Once[1] == "-c":
		return filepath.Base(s.Once[3]) // the script's $0
	}
	return filepath.Base(s.Once[0])
}

// Start returns how agents come to some of the hosts.
func (f *Found) Start(wanted []hosts.Host) Start {
	if f.start == nil {
		return Start{Engine: f.Engine, Job: f.Job, Title: f.title}
	}
	s := f.start(wanted)
	s.Engine, s.Job, s.Title = f.Engine, f.Job, f.title
	return s
}

// kind is one engine.
type kind struct {
	name  string   // as --engine takes it
	title string   // as people write it
	vars  []string // by which a job of the engine's is known, for messages
	// find returns nil where this process is in no job of the engine's, or where the reader has failed.
	find func(r *reader) *Found
}

// kinds are the engines in the order in which they are looked for: those that wrap
// others come first.
var kinds = []kind{
	// It runs in allocations of Slurm's and others', and removes SLURM_* from its own.
	{name: "flux", title: "Flux", vars: []string{"FLUX_URI"}, find: findFlux},
	// Its tasks have PBS_* or SLURM_*, too.
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

// None is the name that stands for no engine.
const None = "none"

// Names are the engines' names, for --engine.
func Names() []string {
	names := make([]string, 0, len(kinds)+1)
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return append(names, None)
}
