package plan

import (
	"slices"
	"strconv"
	"strings"

	"gorun/env"
)

// Class tells what a variable is, and with it whose value wins.
type Class string

const (
	// ClassIdentity is the place of a process in a job: gorun's value wins, an
	// inherited one is removed, -x cannot change it.
	ClassIdentity Class = "identity"
	// ClassSetting is knowledge of the user's: an inherited value wins.
	ClassSetting Class = "setting"
	// ClassWish is where the user wants the store; ranks get where it is.
	ClassWish Class = "wish"
	// ClassLauncher is addressed to the launcher itself and not to its ranks.
	ClassLauncher Class = "launcher"
)

// Row is one line of the table of variables.
type Row struct {
	// Name is a variable, or the beginning of several: "PMI_*".
	Name  string
	Class Class
	// Value says in words what ranks get; "" for nothing.
	Value string
	// Reason is why, one short clause.
	Reason string
	// Source is who defined the variable.
	Source string
}

// rule is a row and how Build obeys it.
type rule struct {
	Row
	// value is what gorun gives a rank; nil for rules that only keep or remove.
	value func(b *builder, rank int) (value string, set bool)
	// perRank says that the values of two ranks can differ.
	perRank bool
	// perWorld says the same of ranks of different MPI_COMM_WORLDs, perNode of those of
	// different nodes or worlds.
	perWorld, perNode bool
	// jobWide says that value looks at the whole job, and gives all ranks the same: it is
	// asked once.
	jobWide bool
	// ofOuter says of a setting that it is the outer launcher's where gorun is in a rank of one, and removed.
	ofOuter bool
	// chosen says of a setting that value comes from an option of this job, which
	// beats an inherited value.
	chosen bool
	// needs says in which jobs a variable of MPI's is given; nil: in all.
	needs func(*MPI) bool
	// why replaces Reason where it depends on the job, whyOf where it depends on the rank's
	// node.
	why   func(b *builder) string
	whyOf func(b *builder, rank int) string
	// tuned says that --tune decides whether the rule holds, and that what a file of
	// settings on the rank's host says counts before it; level is how much it matters.
	tuned bool
	level Level
}

// rules is the table. The first rule that fits a name holds, so exceptions stand
// before the pattern that they are exceptions of.
var rules = slices.Concat(ownRules[:], tunedRules[:], textbookRules, mpiRules, otherRules[:], slurmRules)

// ownRules are those that hold in every job.
var ownRules = [...]rule{
	{
		Row:     Row{env.VarRank, ClassIdentity, "rank in the whole job, from 0", "which rank this is", "torchrun"},
		perRank: true, value: func(_ *builder, rank int) (string, bool) { return strconv.Itoa(rank), true },
	},
	{
		Row: Row{
			env.VarLocalRank, ClassIdentity, "rank on its node, from 0; 0 with --virtual-local-rank",
			"which rank of its node this is", "torchrun",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) {
			return b.localRank(rank), true
		}, why: (*builder).localRankReason,
	},
	{
		Row:   Row{env.VarWorldSize, ClassIdentity, "number of ranks", "ranks of this job", "torchrun"},
		value: func(b *builder, _ int) (string, bool) { return strconv.Itoa(len(b.in.Ranks)), true },
	},
	{
		Row:     Row{env.VarLocalWorldSize, ClassIdentity, "number of ranks on this node", "ranks of this node", "torchrun"},
		perNode: true, value: func(b *builder, rank int) (string, bool) {
			return strconv.Itoa(b.seat(rank).LocalRanks), true
		},
	},
	{
		Row:     Row{env.VarGroupRank, ClassIdentity, "number of the node, from 0", "which node this is", "torchrun"},
		perNode: true, value: func(b *builder, rank int) (string, bool) { return strconv.Itoa(b.seat(rank).Group), true },
	},
	{
		Row:   Row{env.VarGroupWorldSize, ClassIdentity, "number of nodes", "nodes of this job", "torchrun"},
		value: func(b *builder, rank int) (string, bool) { return strconv.Itoa(b.seat(rank).NumGroups), true },
	},
	{
		Row:     Row{env.VarRoleName, ClassIdentity, "`--role` of its node, else `default`", "--role", "torchrun"},
		perNode: true, value: func(b *builder, rank int) (string, bool) { return b.role(rank), true },
	},
	{
		Row: Row{
			env.VarRoleRank, ClassIdentity, "rank among those of its role, from 0",
			"which rank of its role this is", "torchrun",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) { return strconv.Itoa(b.inRole[rank]), true },
	},
	{
		Row:     Row{env.VarRoleWorldSize, ClassIdentity, "number of ranks of its role", "ranks of this role", "torchrun"},
		perNode: true, value: func(b *builder, rank int) (string, bool) { return strconv.Itoa(b.roles[b.role(rank)]), true },
	},
	{
		Row: Row{
			env.VarMasterAddr, ClassWish,
			"the address of the store, by which ranks find each other; if you set it, the store listens there",
			"where ranks reach the store", "PyTorch",
		},
		value: func(b *builder, _ int) (string, bool) { return b.in.MasterAddr, b.in.MasterAddr != "" },
	},
	{
		Row: Row{
			env.VarMasterPort, ClassWish, "the store's port; with `--store=rank0` one that is kept free for rank 0",
			"the store's port", "PyTorch",
		},
		value: func(b *builder, _ int) (string, bool) { return b.in.MasterPort, b.in.MasterPort != "" },
		why:   (*builder).masterPortReason,
	},
	{
		Row: Row{
			env.VarTorchelasticRunID, ClassIdentity, "`--rdzv-id`, else a random text; unset with `--store=rank0`",
			"the job's name; PyTorch sees a launcher by it", "torchrun",
		},
		value: func(b *builder, _ int) (string, bool) { return b.in.RunID, b.agentStore() },
	},
	{
		Row: Row{
			env.VarTorchelasticRestartCount, ClassIdentity,
			"number of the attempt, from 0; unset with `--store=rank0` and no `--max-restarts`", "which attempt this is",
			"torchrun",
		},
		value: func(b *builder, _ int) (string, bool) {
			return strconv.Itoa(b.in.Attempt), b.agentStore() || b.in.MaxRestarts > 0
		},
	},
	{
		Row: Row{
			env.VarTorchelasticMaxRestarts, ClassIdentity,
			"`--max-restarts`; unset with `--store=rank0` and no restarts", "--max-restarts", "torchrun",
		},
		value: func(b *builder, _ int) (string, bool) {
			return strconv.Itoa(b.in.MaxRestarts), b.agentStore() || b.in.MaxRestarts > 0
		},
	},
	{
		Row: Row{
			env.VarTorchelasticUseAgentStore, ClassIdentity, "`True`; unset with `--store=rank0`",
			"no rank has to serve the store", "torchrun",
		},
		value: func(b *builder, _ int) (string, bool) { return "True", b.agentStore() },
	},
	{
		Row: Row{
			env.VarTorchelasticErrorFile, ClassIdentity, "the rank's own file, or empty where no file may be written; unset " +
				"with `--store=rank0`",
			"where PyTorch writes an uncaught exception", "torchrun",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) { return b.in.Ranks[rank].ErrorFile, b.agentStore() },
	},
	{
		Row: Row{
			env.VarTorchelasticSignalsToHandle, ClassIdentity, "`--signals-to-handle`, else `" + defaultSignals +
				"`; unset with `--store=rank0`",
			"signals that gorun passes on", "torchrun",
		},
		value: func(b *builder, _ int) (string, bool) { return b.signals(), b.agentStore() },
	},
	{
		Row: Row{env.VarJob, ClassIdentity, "marker of the job; `outer:inner` for a job inside a rank, and behind it " +
			"in a job of several nodes its part on this one", "tells which processes belong to this job", "gorun"},
		perNode: true, value: func(b *builder, rank int) (string, bool) { return b.marker(rank), true },
	},
	{
		Row: Row{
			env.VarJobEngine, ClassIdentity, "`slurm:17`: the job of a resource manager that the rank is in; unset outside of " +
				"all. A process with GORUN_JOB that is in another one, such as a batch job that a rank submits, is not of this " +
				"job: it is not ended with it, and gorun in it is inside no rank",
			"tells what this job's ranks submit from this job", "gorun",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) {
			job := env.EngineJob(b.ofNode(rank))
			return job, job != ""
		},
	},
	{
		Row: Row{
			env.VarJobStore, ClassIdentity, "host:port of gorun's own store, which runs in every mode",
			"gorun's own store", "gorun",
		},
		value: func(b *builder, _ int) (string, bool) { return b.in.JobStore, b.in.JobStore != "" },
	},
	{
		Row: Row{
			env.VarJobKey, ClassIdentity, "with several nodes a file of the rank's own host, which only its user " +
				"can read: the key by which ranks of package comm know each other; gone with the job",
			"ranks on other hosts prove that they are of this job", "gorun",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) {
			file := b.in.Nodes[b.in.Ranks[rank].Node].KeyFile
			return file, file != ""
		},
	},

	{
		Row: Row{
			env.VarOMPNumThreads, ClassSetting, "the CPUs that the rank is bound to, divided where others are bound to them; " +
				"else the node's, divided by its ranks; never more than its part of a cgroup quota, or than a resource manager " +
				"was asked for (`--cpus-per-task`)",
			"this node's usable CPUs ÷ its ranks", "OpenMP",
		},
		perRank: true, value: (*builder).threads, why: (*builder).threadsReason,
	},
	{
		Row: Row{
			env.VarGoMaxProcs, ClassSetting, "where ranks share CPUs or a quota, or `--cpus-per-task` asks for fewer: as " +
				"OMP_NUM_THREADS, but at least 2, so that a C or system call does not stop the rest; else left alone, since Go " +
				"counts the CPUs that it is bound to and a quota of its own",
			"its part of CPUs, or of a quota, that ranks share", "Go",
		},
		perRank: true, value: func(b *builder, rank int) (string, bool) {
			n := b.in.Ranks[rank].GoThreads
			return strconv.Itoa(n), n > 0
		},
	},
	{
		Row: Row{
			env.VarTorchNCCLAsyncErrorHandling, ClassSetting, "`1`",
			"a failed collective ends its rank instead of hanging it", "PyTorch",
		},
		value: func(*builder, int) (string, bool) { return "1", true },
	},
	{
		Row:   Row{env.VarPythonUnbuffered, ClassSetting, "`1`", "the last words of a killed rank are not lost", "Python"},
		value: func(*builder, int) (string, bool) { return "1", true },
	},
	{
		Row: Row{
			env.VarCUDAVisibleDevices, ClassSetting,
			"as inherited; the rank's own GPUs of it by UUID with `--isolate-gpus`; the job's with `--gpus`; one entry of it " +
				"with `--virtual-local-rank`", "which GPUs the rank sees", "CUDA",
		},
		perRank: true, chosen: true, value: (*builder).cudaDevices, why: func(b *builder) string {
			return b.visibleReason(env.VarCUDAVisibleDevices)
		},
	},
	{
		Row: Row{
			env.VarCUDADeviceOrder, ClassSetting,
			"as inherited, else `PCI_BUS_ID`; that in any case with `--isolate-gpus` or `--gpus` where no UUID is known",
			"CUDA numbers GPUs by PCI address, as nvidia-smi and gorun do", "CUDA",
		},
		perRank: true, chosen: true, value: (*builder).deviceOrder,
	},
	{
		Row: Row{
			env.VarROCRVisibleDevices, ClassSetting,
			"as inherited; the rank's own GPUs of it by UUID with `--isolate-gpus`; the job's with `--gpus`",
			"which GPUs the rank sees", "ROCm",
		},
		perRank: true, chosen: true, value: func(b *builder, rank int) (string, bool) {
			return b.visible(env.VarROCRVisibleDevices, rank)
		},
		why: func(b *builder) string { return b.visibleReason(env.VarROCRVisibleDevices) },
	},
	{
		Row: Row{
			env.VarHIPVisibleDevices, ClassSetting,
			"as inherited; where ROCR_VISIBLE_DEVICES is set by gorun the numbers of what that leaves, as for " +
				"CUDA_VISIBLE_DEVICES on AMD's GPUs; one entry of it with `--virtual-local-rank`",
			"which GPUs the rank sees", "ROCm",
		},
		perRank: true, chosen: true, value: (*builder).hipDevice, why: func(b *builder) string {
			return b.visibleReason(env.VarHIPVisibleDevices)
		},
	},
	{
		Row: Row{
			env.VarZEAffinityMask, ClassSetting,
			"as inherited; the rank's own GPUs of it by number with `--isolate-gpus`; the job's with `--gpus`",
			"which GPUs the rank sees", "Level Zero",
		},
		perRank: true, chosen: true, value: func(b *builder, rank int) (string, bool) {
			return b.visible(env.VarZEAffinityMask, rank)
		},
		why: func(b *builder) string { return b.visibleReason(env.VarZEAffinityMask) },
	},
	{
		Row: Row{
			"PWD", ClassSetting, "as inherited; the working directory with `--chdir`",
			"the working directory (--chdir)", "POSIX",
		},
		perRank: true, chosen: true, value: (*builder).workingDir,
	},
}

// otherRules are variables that gorun gives nobody: those that it only passes on, those meant
// for itself, and what other launchers leave behind.
var otherRules = [...]rule{
	{Row: Row{env.VarPython, ClassSetting, "as inherited", "the interpreter of this user's scripts", "gorun"}},
	{Row: Row{env.VarToken, ClassLauncher, "", "a secret stays with the launcher", "gorun"}},
	{Row: Row{
		"GORUN_*", ClassLauncher, "",
		"an option's default is meant for this gorun, not for one inside a rank; -x passes it on", "gorun",
	}},

	{Row: Row{"PMIX_MCA_*", ClassSetting, "as inherited", "parameters of the PMIx library", "PMIx"}},
	{Row: Row{"PMIX_PREFIX", ClassSetting, "as inherited", "where PMIx is installed", "PMIx"}},
	{Row: Row{"PMIX_INSTALL_PREFIX", ClassSetting, "as inherited", "where PMIx is installed", "PMIx"}},
	{Row: Row{"PMI_DEBUG", ClassSetting, "as inherited", "MPICH shows its PMI traffic", "MPICH"}},
	{Row: Row{
		env.VarTorchelasticEnableFileTimer, ClassSetting, "as inherited",
		"`1` has each node end ranks whose file timer has expired", "torchrun",
	}, ofOuter: true},
	{Row: Row{
		env.VarTorchelasticTimerFile, ClassSetting,
		"as inherited; with TORCHELASTIC_ENABLE_FILE_TIMER=1 a pipe of the node's own where it is not set",
		"where file timers are", "torchrun",
	}, ofOuter: true},
	{Row: Row{
		env.VarTorchelasticHealthCheckPort, ClassSetting, "as inherited",
		"where each node answers liveness probes", "torchrun",
	}, ofOuter: true},
	{Row: Row{"TORCHELASTIC_*", ClassIdentity, "", "an outer torchrun's", "torchrun"}},
	{Row: Row{
		"PMIX_SERVER_*", ClassIdentity, "",
		"an outer mpirun's or srun's: ranks would meet at a server that does not know them", "PMIx",
	}},
	{Row: Row{"PMIX_SYSTEM_TMPDIR", ClassIdentity, "", "a directory of an outer mpirun or srun", "PMIx"}},
	{Row: Row{"PMIX_DSTORE_*", ClassIdentity, "", "shared memory of an outer mpirun's or srun's server", "PMIx"}},
	{Row: Row{"PMIX_LAUNCHER_*", ClassIdentity, "", "where an outer mpirun is told to report", "PMIx"}},
	{Row: Row{"PMIX_KEEPALIVE_PIPE", ClassIdentity, "", "a descriptor of an outer mpirun", "PMIx"}},
	{Row: Row{
		"PMIX_PARAM_FILE_PASSED", ClassIdentity, "",
		"what an outer mpirun's daemons did with its parameters", "PMIx",
	}},
	{Row: Row{"PMIX_PTL_MODULE", ClassIdentity, "", "how an outer mpirun's ranks reach its server", "PMIx"}},
	{Row: Row{"PMI_*", ClassIdentity, "", "an outer mpiexec's or srun's: every rank would be the same one there", "PMI"}},
	{Row: Row{"HYDI_CONTROL_FD", ClassIdentity, "", "a descriptor of an outer mpiexec's proxy", "MPICH"}},
	{Row: Row{"MV2_COMM_WORLD_*", ClassIdentity, "", "an outer mpirun_rsh's", "MVAPICH2"}},
	{Row: Row{"OMPI_COMM_*", ClassIdentity, "", "an outer mpirun's: every rank would be the same one there", "Open MPI"}},
	{Row: Row{"OMPI_WORLD_*", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{
		"OMPI_UNIVERSE_SIZE", ClassIdentity, "", "an outer mpirun's; with it mpirun refuses to run in a rank",
		"Open MPI",
	}},
	{Row: Row{"OMPI_COMMAND", ClassIdentity, "", "an outer mpirun's program", "Open MPI"}},
	{Row: Row{"OMPI_ARGV", ClassIdentity, "", "an outer mpirun's program", "Open MPI"}},
	{Row: Row{"OMPI_FILE_LOCATION", ClassIdentity, "", "a directory of one rank of an outer mpirun", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_hnp_uri", ClassIdentity, "", "an outer mpirun's address: MPI_Init fails there", "Open MPI"}},
	{Row: Row{"OMPI_MCA_ess", ClassIdentity, "", "how an outer mpirun's ranks find their place", "Open MPI"}},
	{Row: Row{"OMPI_MCA_pmix", ClassIdentity, "", "how an outer mpirun's ranks find their server", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_app_num", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_num_nodes", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_bound_at_launch", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_top_session_dir", ClassIdentity, "", "a directory of an outer mpirun", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_jobfam_session_dir", ClassIdentity, "", "a directory of an outer mpirun", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_precondition_transports", ClassIdentity, "", "the key of an outer mpirun's job", "Open MPI"}},
	{Row: Row{"OMPI_MCA_initial_wdir", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_num_procs", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_num_restarts", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_TOOL_NAME", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{
		"OMPI_VERSION", ClassIdentity, "", "an outer mpirun's; frameworks take it for a launch by that",
		"Open MPI",
	}},
	{Row: Row{"OMPI_MCA_orte_launch", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_orte_ess_*", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"OMPI_MCA_ess_base_*", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"PRTE_LAUNCHED", ClassIdentity, "", "an outer mpirun's; MPICH refuses to start alone with it", "Open MPI"}},
	{Row: Row{"PRTE_SHARED_FS", ClassIdentity, "", "an outer mpirun's", "Open MPI"}},
	{Row: Row{"HYDRA_BSTRAP_*", ClassIdentity, "", "descriptors and numbers of an outer mpiexec's proxy", "Intel MPI"}},
	{Row: Row{"I_MPI_HYDRA_UUID", ClassIdentity, "", "the name of an outer mpiexec's job", "Intel MPI"}},
	{Row: Row{"I_MPI_PIN_INFO", ClassIdentity, "", "where an outer mpiexec bound its own rank", "Intel MPI"}},
	{Row: Row{"I_MPI_PIN_MAPPING", ClassIdentity, "", "where an outer mpiexec bound its own ranks", "Intel MPI"}},
	{Row: Row{"I_MPI_INFO_*", ClassIdentity, "", "what an outer mpiexec saw of its rank's host", "Intel MPI"}},
	{Row: Row{"FLUX_TASK_RANK", ClassIdentity, "", "the number of the one task that gorun is", "Flux"}},
	{Row: Row{"FLUX_TASK_LOCAL_ID", ClassIdentity, "", "the number of the one task that gorun is", "Flux"}},
	{Row: Row{
		"FLUX_JOB_SIZE", ClassIdentity, "", "tasks of the flux run that gorun is in; WORLD_SIZE counts ranks",
		"Flux",
	}},
	{Row: Row{
		"FLUX_JOB_NNODES", ClassIdentity, "",
		"nodes of the flux run that gorun is in; GROUP_WORLD_SIZE counts those of ranks", "Flux",
	}},
	{Row: Row{"PALS_SIZE", ClassIdentity, "", "tasks of the mpiexec that gorun is in", "PALS"}},
	{Row: Row{"PALS_LOCAL_SIZE", ClassIdentity, "", "tasks of the mpiexec that gorun is in, on this node", "PALS"}},
	{Row: Row{"PALS_RANKID", ClassIdentity, "", "the number of the one task that gorun is", "PALS"}},
	{Row: Row{"PALS_LOCAL_RANKID", ClassIdentity, "", "the number of the one task that gorun is", "PALS"}},
	{Row: Row{"JSM_NAMESPACE_*", ClassIdentity, "", "an outer jsrun's", "LSF"}},
}

// defaultSignals is torchrun's default of --signals-to-handle.
const defaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

// Decides reports whether a variable is one that [Build] sets, or takes away from what
// ranks inherit; one of which it only says that it is inherited is none.
func Decides(name string) bool {
	r := ruleFor(name)
	return r != nil && (r.value != nil || r.Value == "")
}

// Sets reports whether a variable is one to which [Build] may give a value of its own.
func Sets(name string) bool {
	r := ruleFor(name)
	return r != nil && r.value != nil
}

// ruleFor returns the rule that holds for a variable; nil means that gorun leaves
// it alone.
func ruleFor(name string) *rule {
	for i := range rules {
		if rules[i].fits(name) {
			return &rules[i]
		}
	}
	return nil
}

func (r *rule) fits(name string) bool {
	last := len(r.Name) - 1
	if r.Name[last] == '*' {
		return strings.HasPrefix(name, r.Name[:last])
	}
	return name == r.Name
}

// Table returns what gorun does about every variable that it knows.
func Table() []Row {
	rows := make([]Row, len(rules))
	for i := range rules {
		rows[i] = rules[i].Row
	}
	return rows
}
