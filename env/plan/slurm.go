package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slurm variables that Build reads.
const (
	varSlurmJobID        = "SLURM_JOB_ID"
	varSlurmNumNodes     = "SLURM_NNODES"
	varSlurmNodeName     = "SLURMD_NODENAME"
	varSlurmTasksPerNode = "SLURM_NTASKS_PER_NODE"
	varSlurmCPUsPerTask  = "SLURM_CPUS_PER_TASK"
)

// InSlurm reports whether a process with this environment is in a Slurm job. For a node that joined, the
// launcher has only the variables that [Sets] accepts.
func InSlurm(environ []string) bool {
	for _, name := range [...]string{varSlurmJobID, varSlurmNumNodes} {
		if value, _ := lookup(environ, name); value != "" {
			return true
		}
	}
	return false
}

// SlurmNode returns Slurm's name for the node of a process with this environment, or "".
func SlurmNode(environ []string) string {
	name, _ := lookup(environ, varSlurmNodeName)
	return name
}

// slurm has the values that srun would give the job's ranks if they were the tasks of a step. It is nil
// outside Slurm.
type slurm struct {
	names        []string // of nodes; several may be processes on one Slurm node
	tasksPerNode string   // of all nodes: "4(x2),1"
	room         string   // inherited outside steps, else tasksPerNode
	ranks        []string // of each Slurm node: "0,1,2"
	perNode      string   // "" if it varies or was not inherited
	cpusPerTask  int      // inherited; 0 if unset
}

func (b *builder) slurmStep() *slurm {
	if b.in.SlurmNodes == "" {
		return nil
	}
	groups := view{b, 0}.task().NumGroups
	s, tasks := &slurm{ranks: make([]string, groups)}, make([]int, groups)
	here := SlurmNode(b.in.Inherited)
	for _, n := range b.in.Nodes {
		name := SlurmNode(n.Environ)
		if name == "" && !n.Joined && !n.Remote {
			name = here
		}
		s.names = append(s.names, name)
	}
	for rank := range b.in.Ranks {
		group := view{b, rank}.task().Group
		if group < 0 || group >= groups { // the process reports an impossible group
			return nil
		}
		if tasks[group]++; tasks[group] > 1 {
			s.ranks[group] += ","
		}
		s.ranks[group] += strconv.Itoa(rank)
	}
	s.tasksPerNode = runLengths(tasks)
	if _, has := lookup(b.in.Inherited, varSlurmTasksPerNode); has && !strings.Contains(s.tasksPerNode, ",") {
		s.perNode, _, _ = strings.Cut(s.tasksPerNode, "(")
	}
	s.room, _ = lookup(b.in.Inherited, "SLURM_TASKS_PER_NODE")
	if _, inStep := lookup(b.in.Inherited, "SLURM_STEP_ID"); inStep {
		s.room = s.tasksPerNode
	}
	text, _ := lookup(b.in.Inherited, varSlurmCPUsPerTask)
	s.cpusPerTask, _ = strconv.Atoi(text) // gorun does not pass on an invalid number
	return s
}

// runLengths formats numbers as Slurm does: 2, 2, 1 is "2(x2),1".
func runLengths(numbers []int) string {
	var words []string
	for i := 0; i < len(numbers); {
		end := i
		for end < len(numbers) && numbers[end] == numbers[i] {
			end++
		}
		word := strconv.Itoa(numbers[i])
		if end-i > 1 {
			word += fmt.Sprintf("(x%d)", end-i)
		}
		words, i = append(words, word), end
	}
	return strings.Join(words, ",")
}

func (p view) numRanks() string { return strconv.Itoa(len(p.in.Ranks)) }
func (p view) numNodes() string { return strconv.Itoa(p.task().NumGroups) }

// slurmCPUs returns the requested CPUs for each task, but not more than the rank's: a task may be a gorun with
// several ranks.
func (p view) slurmCPUs() string {
	n := p.slurm.cpusPerTask
	if own := p.numThreads(); own > 0 {
		n = min(n, own)
	}
	return positive(n)
}

// slurmSource is the source of Slurm's rows, and the title of their part of the page.
const slurmSource = "Slurm"

// slurmRules are the rules for Slurm's variables; gorun leaves all others alone. The values equal those of
// srun, except for the step. Open MPI 4 takes a process with SLURM_NODELIST and SLURM_STEP_ID for a task of
// srun, and fails without PMIx, as with --mpi=none. With PMIx it would work, but no known program needs the
// step.
func slurmRules() []*rule {
	return slices.Concat(
		identities(slurmSource,
			given("SLURM_PROCID", "equals RANK", "JAX, Lightning and many scripts read it", ofRank,
				func(p view) string { return strconv.Itoa(p.rank) }),
			given("SLURM_LOCALID", "equals LOCAL_RANK", "programs select their GPU by it", ofRank, view.localRank),
			given("SLURM_NODEID", "equals GROUP_RANK", "number of the node", ofRank,
				func(p view) string { return strconv.Itoa(p.task().Group) }),
			given("SLURM_NTASKS", "equals WORLD_SIZE",
				"ranks of this job; an srun inside a rank starts as many unless it says otherwise", ofJob, view.numRanks),
			given("SLURM_NPROCS", "equals WORLD_SIZE", "the old name of SLURM_NTASKS", ofJob, view.numRanks),
			given("SLURM_STEP_NUM_TASKS", "equals WORLD_SIZE", "ranks of this job", ofJob, view.numRanks),
			given("SLURM_GTIDS", "the ranks of this node: `0,1,2,3`", "ranks on the same node", ofRank,
				func(p view) string { return p.slurm.ranks[p.task().Group] }),
			given("SLURM_TASKS_PER_NODE", "in a step number of ranks on each node: `4(x2),1`; else as inherited",
				"launchers inside a rank read it with SLURM_NODELIST as the slots of each node; a step puts its own tasks there",
				ofJob, func(p view) string { return p.slurm.room }),
			given("SLURM_STEP_TASKS_PER_NODE", "number of ranks on each node: `4(x2),1`", "ranks of this job", ofJob,
				func(p view) string { return p.slurm.tasksPerNode }),
			given(varSlurmTasksPerNode, "ranks on each node, if it is inherited and all nodes have equally many",
				"Lightning reads it; another number would contradict SLURM_NTASKS", ofJob,
				func(p view) string { return p.slurm.perNode }),
			given(varSlurmNumNodes, "equals GROUP_WORLD_SIZE",
				"nodes of this job; SLURM_JOB_NUM_NODES stays that of the allocation", ofJob, view.numNodes),
			given("SLURM_STEP_NUM_NODES", "equals GROUP_WORLD_SIZE", "nodes of this job", ofJob, view.numNodes),
			given("SLURM_STEP_NODELIST", "the nodes of this job, that of rank 0 first: `n[1-3]`",
				"JAX uses the first as coordinator; SLURM_JOB_NODELIST and SLURM_NODELIST keep the allocation's nodes", ofJob,
				func(p view) string { return p.in.SlurmNodes }),
			given(varSlurmNodeName, "Slurm's name of this node", "scripts distinguish nodes by it", ofRank,
				func(p view) string { return p.slurm.names[p.own().Node] }),
			given(varSlurmCPUsPerTask, "as inherited, but at most the value for OMP_NUM_THREADS",
				"one srun task may be a gorun with several ranks that share its CPUs", ofRank, view.slurmCPUs),
			given("SLURM_LAUNCH_NODE_IPADDR", "equals MASTER_ADDR", "the inherited value is srun's; scripts read it as rank 0's",
				ofJob, func(p view) string { return p.in.Store.Addr }),
			removed("SLURM_STEP_ID",
				"gorun's step, not the ranks': MPI libraries treat ranks with it as srun tasks, and Open MPI 4 stops if "+
					"it is set without PMIx (`--mpi=none`)"),
			removed("SLURM_STEPID", "the old name of SLURM_STEP_ID"),
			removed("SLURM_TASK_PID", "process of gorun's own task"),
			removed("SLURM_STEP_LAUNCHER_PORT", "the port of the srun that started gorun"),
			removed("SLURM_SRUN_COMM_*", "the port of the srun that started gorun"),
			removed("SLURM_STEP_RESV_PORTS", "ports of one step's tasks"),
			removed("SLURM_PTY_*", "the terminal of the srun that started gorun"),
			removed("SLURM_PMI2_*", "PMI of gorun's own step"),
			removed("SLURM_PMI_*", "PMI of gorun's own step"),
			removed("SLURM_PMIXP_*", "PMIx of gorun's own step"),
			removed("SLURM_PMIX_MAPPING_SERV", "PMIx of gorun's own step"),
		),
		launchers(slurmSource,
			removed("SLURM_CPU_BIND*",
				"CPUs of gorun's own task; an srun inside a rank would bind its tasks there; -x passes it on"),
			removed("SLURM_DISTRIBUTION", "srun's distribution of tasks; gorun has its own; -x passes it on"),
			removed("SLURM_DIST_*", "srun's distribution of tasks"),
			removed("SLURM_LABELIO", "srun --label of gorun's own step; -x passes it on"),
		),
	)
}
