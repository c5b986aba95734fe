package engine

import (
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// srunWords start one task on each wanted node, whatever the job requested. Slurm before 20.11 shares nodes between
// steps by itself and has no --overlap: the agents' srun is retried without it.
//
//   - --overlap shares CPUs with other steps; else a job with a step would wait for its end ("step creation temporarily
//     disabled").
//   - --mpi=none, --cpu-bind=none: no PMI server and no mask, whatever the site's defaults are. The step has all CPUs
//     and memory of the job, and gorun places ranks itself.
//   - --export=ALL overrides --export=NONE of the job.
//   - --kill-on-bad-exit=0, --wait=0, --no-kill: the launcher decides what the end of an agent or node means.
var srunWords = []string{
	"srun", "--overlap", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--kill-on-bad-exit=0", "--wait=0",
	"--no-kill", "--ntasks-per-node=1",
}

// srunDrop are variables that srun reads as options or as the shape of a step (srun(1), INPUT ENVIRONMENT VARIABLES):
// salloc and sbatch set some from the job's request, users others for their own steps. Variables that change neither
// resources nor streams stay, and so does SLURM_NNODES_HET_GROUP_0, which srun needs.
var srunDrop = []string{
	"SLURM_NTASKS*", "SLURM_NPROCS*", "SLURM_TASKS_PER_NODE*", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_HOSTFILE",
	"SLURM_MULTI_PROG",
	"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_MEM_PER_*", "SLURM_HINT",
	"SLURM_THREADS*",
	"SLURM_CORE_SPEC", "SLURM_THREAD_SPEC", "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE", "SLURM_EXACT",
	"SLURM_EXCLUSIVE", "SLURM_OVERCOMMIT",
	"SLURM_WHOLE", "SLURM_SPREAD_JOB", "SLURM_USE_MIN_NODES", "SLURM_CONSTRAINT", "SLURM_NETWORK", "SLURM_RESV_PORTS",
	"SLURM_GPUS", "SLURM_GPUS_PER_*", "SLURM_GPU_BIND", "SLURM_CPUS_PER_GPU", "SLURM_GRES", "SLURM_STEP_GRES",
	"SLURM_GRES_FLAGS",
	"SLURM_TRES_PER_*", "SLURM_TRES_BIND", "SLURM_MPI_TYPE", "SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV",
	"SLURM_KILL_BAD_EXIT", "SLURM_NO_KILL",
	"SLURM_WAIT", "SLURM_TIMELIMIT", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_LABELIO",
	"SLURM_UNBUFFEREDIO",
	"SLURM_BCAST*", "SLURM_SEND_LIBS", "SLURM_COMPRESS", "SLURM_REMOTE_CWD", "SLURM_WORKING_DIR", "SLURM_TEST_EXEC",
	"SLURM_HET_GROUP",
	"SLURM_PACK_GROUP", "SLURM_STEP_*", "SLURM_STEPID",
}

// setStart sets how to start agents on the nodes of an allocation.
func (s *slurm) setStart() {
	if _, err := s.LookPath("srun"); err == nil {
		s.found.start = s.start
		s.noteGPUs()
		return
	}
	all := s.found.Hosts
	if len(all) == 1 && (s.IsThisHost(all[0].Name) || all[0].Name == s.get("SLURMD_NODENAME")) {
		all[0].Here = true
		s.found.Notes = append(s.found.Notes, "srun is not in PATH; the job has only this node and does not need it")
		return
	}
	s.found.missing = "srun"
	s.found.Notes = append(s.found.Notes, "srun is not in PATH, so gorun reaches the job's nodes over SSH: a site may "+
		"forbid that, and Slurm does not account for what runs there; add the folder of srun to PATH, also in a container")
}

// start returns the srun for some of the job's nodes.
func (s *slurm) start(wanted []hosts.Host) Start {
	names := hosts.Names(wanted)
	var whole []part
	for _, p := range s.parts {
		if slices.ContainsFunc(p.nodes, func(n string) bool { return slices.Contains(names, n) }) {
			whole = append(whole, p)
		}
	}
	words, ok := s.shape(whole, names)
	if !ok {
		return Start{}
	}
	once := append(slices.Clone(srunWords), words...)
	return Start{
		Once: once, Drop: srunDrop, Set: append(tasksOf(whole), "SLURM_SEND_LIBS=no"), NodeIDs: []string{"SLURMD_NODENAME"},
		// srun's own file names are predictable, and it follows symbolic links. The agent is static and needs no
		// libraries; SLURM_SEND_LIBS works where srun has no option for it.
		Bcast:   []string{"--bcast=/tmp/{name}"},
		Signals: true, NodesMayFail: true,
		// In a step over several components only one gets srun's input.
		ByFile: len(whole) > 1,
	}
}

// tasksOf sets the number of tasks of each of several components; else srun starts only one in a component with as many
// tasks as nodes (22.05).
func tasksOf(parts []part) []string {
	if len(parts) < 2 {
		return nil
	}
	var set []string
	for _, p := range parts {
		set = append(set, "SLURM_NTASKS"+p.suffix+"="+strconv.Itoa(len(p.nodes)))
	}
	return set
}

// shape returns the options that select the nodes: by name, or, for several components, whole components.
func (s *slurm) shape(parts []part, names []string) (words []string, ok bool) {
	if len(parts) == 1 {
		p := parts[0]
		if p.suffix != "" {
			words = append(words, "--het-group="+p.group())
		}
		n := strconv.Itoa(len(names))
		words = append(words, "--nodes="+n, "--ntasks="+n, "--nodelist="+hosts.NodeList(names))
		return append(words, s.gpus(p, names)...), true
	}
	var groups []string
	total := 0
	for _, p := range parts {
		groups = append(groups, p.group())
		total += len(p.nodes)
	}
	return []string{"--het-group=" + strings.Join(groups, ",")}, total == len(names)
}

// group returns the component's number.
func (p *part) group() string { return p.suffix[strings.LastIndexByte(p.suffix, '_')+1:] }
