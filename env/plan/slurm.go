package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Variables of Slurm that Build looks at.
const (
	varSlurmJobID        = "SLURM_JOB_ID"
	varSlurmNumNodes     = "SLURM_NNODES"
	varSlurmNodeName     = "SLURMD_NODENAME"
	varSlurmTasksPerNode = "SLURM_NTASKS_PER_NODE"
	varSlurmCPUsPerTask  = "SLURM_CPUS_PER_TASK"
)

// InSlurm reports whether a process with this environment is in a job of Slurm's. Of a
// node that joined the head knows only what [Sets] names.
func InSlurm(environ []string) bool {
	for _, name := range [...]string{varSlurmJobID, varSlurmNumNodes} {
		if value, _ := lookup(environ, name); value != "" {
			return true
		}
	}
	return false
}

// SlurmNode is what Slurm calls the node on which a process with this environment is;
// "" where it does not say.
func SlurmNode(environ []string) string {
	name, _ := lookup(environ, varSlurmNodeName)
	return name
}

// slurm is what srun would say of the job's ranks, were they the tasks of one of its
// steps; nil where they are not inside Slurm.
type slurm struct {
	names        []string // of the nodes, which may be processes on one of Slurm's
	tasksPerNode string   // of all nodes: "4(x2),1"
	room         string   // as inherited outside of steps, else tasksPerNode
	ranks        []string // of each of Slurm's nodes: "0,1,2"
	perNode      string   // where it is the same everywhere and the job has such a number
	cpusPerTask  int      // as inherited, 0: not
}

func (b *builder) slurmStep() *slurm {
	if b.in.SlurmNodes == "" {
		return nil
	}
	groups := b.seat(0).NumGroups
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
		group := b.seat(rank).Group
		if group < 0 || group >= groups { // a process that says what cannot be
			return nil
		}
		if tasks[group]++; tasks[group] > 1 {
			s.ranks[group] += ","
		}
		s.ranks[group] += strconv.Itoa(rank)
	}
	s.tasksPerNode = repeated(tasks)
	if _, has := lookup(b.in.Inherited, varSlurmTasksPerNode); has && !strings.Contains(s.tasksPerNode, ",") {
		s.perNode, _, _ = strings.Cut(s.tasksPerNode, "(")
	}
	s.room, _ = lookup(b.in.Inherited, "SLURM_TASKS_PER_NODE")
	if _, inStep := lookup(b.in.Inherited, "SLURM_STEP_ID"); inStep {
		s.room = s.tasksPerNode
	}
	text, _ := lookup(b.in.Inherited, varSlurmCPUsPerTask)
	s.cpusPerTask, _ = strconv.Atoi(text) // what is no number is not passed on
	return s
}

// repeated writes numbers as Slurm does: 2, 2, 1 is "2(x2),1".
func repeated(numbers []int) string {
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

// says is a value that ranks have inside Slurm only.
func says(value func(b *builder, rank int) string) func(b *builder, rank int) (string, bool) {
	return func(b *builder, rank int) (string, bool) {
		if b.slurm == nil {
			return "", false
		}
		v := value(b, rank)
		return v, v != ""
	}
}

func numRanks(b *builder, _ int) string     { return strconv.Itoa(len(b.in.Ranks)) }
func numNodes(b *builder, rank int) string  { return strconv.Itoa(b.seat(rank).NumGroups) }
func tasksPerNode(b *builder, _ int) string { return b.slurm.tasksPerNode }

// slurmCPUs are those that were asked for, for each task, and no more than the rank has:
// the task of a step may be a gorun with several ranks.
func slurmCPUs(b *builder, rank int) string {
	n := b.slurm.cpusPerTask
	if text, known := b.threads(rank); known {
		own, _ := strconv.Atoi(text)
		n = min(n, own)
	}
	if n < 1 {
		return ""
	}
	return strconv.Itoa(n)
}

// slurmSource names who defined a variable, and the part of the page that it is in.
const slurmSource = "Slurm"

// slurmRules are what gorun does about the variables of Slurm; it leaves all others
// alone. srun would say the same of ranks that it started, but for the step, which they
// are not: Open MPI 4 takes a process with SLURM_NODELIST and SLURM_STEP_ID for one that
// srun started, and stops where there is no PMIx, as with --mpi=none. With PMIx it
// would do without harm; nothing that we know needs it.
var slurmRules = []rule{
	{
		Row:     Row{"SLURM_PROCID", ClassIdentity, "equals RANK", "JAX, Lightning and many scripts read it", slurmSource},
		perRank: true, value: says(func(_ *builder, rank int) string { return strconv.Itoa(rank) }),
	},
	{
		Row:     Row{"SLURM_LOCALID", ClassIdentity, "equals LOCAL_RANK", "programs choose their GPU by it", slurmSource},
		perRank: true, value: says((*builder).localRank),
	},
	{
		Row:     Row{"SLURM_NODEID", ClassIdentity, "equals GROUP_RANK", "which node this is", slurmSource},
		perRank: true, value: says(func(b *builder, rank int) string { return strconv.Itoa(b.seat(rank).Group) }),
	},
	{
		Row: Row{
			"SLURM_NTASKS", ClassIdentity, "equals WORLD_SIZE",
			"ranks of this job; an srun inside a rank starts as many unless it says otherwise", slurmSource,
		},
		value: says(numRanks),
	},
	{
		Row:   Row{"SLURM_NPROCS", ClassIdentity, "equals WORLD_SIZE", "the old name of SLURM_NTASKS", slurmSource},
		value: says(numRanks),
	},
	{
		Row:   Row{"SLURM_STEP_NUM_TASKS", ClassIdentity, "equals WORLD_SIZE", "ranks of this job", slurmSource},
		value: says(numRanks),
	},
	{
		Row: Row{
			"SLURM_GTIDS", ClassIdentity, "the ranks of this node: `0,1,2,3`", "which ranks are neighbours",
			slurmSource,
		},
		perRank: true, value: says(func(b *builder, rank int) string { return b.slurm.ranks[b.seat(rank).Group] }),
	},
	{
		Row: Row{
			"SLURM_TASKS_PER_NODE", ClassIdentity, "in a step the ranks of each node: `4(x2),1`; else as inherited",
			"launchers inside a rank read it beside SLURM_NODELIST, as what each node of the allocation has room for; a step " +
				"has put its own tasks there", slurmSource,
		},
		value: says(func(b *builder, _ int) string { return b.slurm.room }),
	},
	{
		Row: Row{
			"SLURM_STEP_TASKS_PER_NODE", ClassIdentity, "the ranks of each node: `4(x2),1`", "ranks of this job",
			slurmSource,
		},
		value: says(tasksPerNode),
	},
	{
		Row: Row{
			varSlurmTasksPerNode, ClassIdentity, "where it is inherited and all nodes have as many ranks: that number",
			"Lightning asks for it; another number would contradict SLURM_NTASKS", slurmSource,
		},
		value: says(func(b *builder, _ int) string { return b.slurm.perNode }),
	},
	{
		Row: Row{
			varSlurmNumNodes, ClassIdentity, "equals GROUP_WORLD_SIZE",
			"nodes of this job; SLURM_JOB_NUM_NODES stays that of the allocation", slurmSource,
		},
		value: says(numNodes),
	},
	{
		Row:   Row{"SLURM_STEP_NUM_NODES", ClassIdentity, "equals GROUP_WORLD_SIZE", "nodes of this job", slurmSource},
		value: says(numNodes),
	},
	{
		Row: Row{
			"SLURM_STEP_NODELIST", ClassIdentity, "the nodes of this job, that of rank 0 first: `n[1-3]`",
			"JAX meets at the first; SLURM_JOB_NODELIST and SLURM_NODELIST stay those of the allocation", slurmSource,
		},
		value: says(func(b *builder, _ int) string { return b.in.SlurmNodes }),
	},
	{
		Row: Row{
			varSlurmNodeName, ClassIdentity, "what Slurm calls this node", "scripts tell nodes apart by it",
			slurmSource,
		},
		perRank: true, value: says(func(b *builder, rank int) string { return b.slurm.names[b.in.Ranks[rank].Node] }),
	},
	{
		Row: Row{
			varSlurmCPUsPerTask, ClassIdentity, "as inherited, and no more than OMP_NUM_THREADS would be",
			"a task of srun's may be a gorun with several ranks, which share its CPUs", slurmSource,
		},
		perRank: true, value: says(slurmCPUs),
	},
	{
		Row: Row{
			"SLURM_LAUNCH_NODE_IPADDR", ClassIdentity, "equals MASTER_ADDR",
			"srun's own address; scripts take it for that of rank 0", slurmSource,
		},
		value: says(func(b *builder, _ int) string { return b.in.MasterAddr }),
	},

	{Row: Row{"SLURM_STEP_ID", ClassIdentity, "", "the step of gorun, not of ranks: MPI libraries take who has it for a " +
		"task of srun's, and Open MPI 4 stops where it is and no PMIx (`--mpi=none`)", slurmSource}},
	{Row: Row{"SLURM_STEPID", ClassIdentity, "", "the old name of SLURM_STEP_ID", slurmSource}},
	{Row: Row{"SLURM_TASK_PID", ClassIdentity, "", "the process of the one task that gorun is", slurmSource}},
	{Row: Row{"SLURM_STEP_LAUNCHER_PORT", ClassIdentity, "", "the port of the srun that started gorun", slurmSource}},
	{Row: Row{"SLURM_SRUN_COMM_*", ClassIdentity, "", "the port of the srun that started gorun", slurmSource}},
	{Row: Row{"SLURM_STEP_RESV_PORTS", ClassIdentity, "", "ports of the tasks of one step", slurmSource}},
	{Row: Row{"SLURM_PTY_*", ClassIdentity, "", "the terminal of the srun that started gorun", slurmSource}},
	{Row: Row{"SLURM_PMI2_*", ClassIdentity, "", "PMI of the step that gorun is in", slurmSource}},
	{Row: Row{"SLURM_PMI_*", ClassIdentity, "", "PMI of the step that gorun is in", slurmSource}},
	{Row: Row{"SLURM_PMIXP_*", ClassIdentity, "", "PMIx of the step that gorun is in", slurmSource}},
	{Row: Row{"SLURM_PMIX_MAPPING_SERV", ClassIdentity, "", "PMIx of the step that gorun is in", slurmSource}},
	{Row: Row{
		"SLURM_CPU_BIND*", ClassLauncher, "",
		"where the one task is bound that gorun is; an srun inside a rank would bind its own there; -x passes it on",
		slurmSource,
	}},
	{Row: Row{
		"SLURM_DISTRIBUTION", ClassLauncher, "", "how srun spreads tasks: gorun has its own way; -x passes it on",
		slurmSource,
	}},
	{Row: Row{"SLURM_DIST_*", ClassLauncher, "", "how srun spreads tasks", slurmSource}},
	{Row: Row{
		"SLURM_LABELIO", ClassLauncher, "", "srun --label of the step that gorun is in; -x passes it on",
		slurmSource,
	}},
}
