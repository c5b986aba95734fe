package plan

// Difference is an intended difference between a rank's environment and that of a torchrun 2.15 worker.
type Difference struct {
	// Name is a variable, or a pattern such as "PMI_*".
	Name string
	// Torchrun and Gorun describe the value under each launcher.
	Torchrun, Gorun string
	// Reason explains why gorun differs.
	Reason string
}

// differences is complete: TestNamesDifferFromTorchrunOnlyAsListed fails on any other difference.
var differences = [...]Difference{
	{
		"OMP_NUM_THREADS", "`1` for several ranks on a node, with a banner of five lines; left alone for one",
		"the CPUs that the rank is bound to, or its part of those that it shares (affinity, cgroup quota)",
		"with 1, most CPUs of a large machine idle; left alone, a container's rank starts a thread for each CPU of the host",
	},
	{
		"GOMAXPROCS", "not set", "the rank's part of CPUs that several ranks share, at least 2",
		"a Go program takes all CPUs that it may use, and cannot know of the other ranks",
	},
	{"PYTHONUNBUFFERED", "not set", "`1`", "the last words of a killed rank are not lost in a buffer"},
	{"NCCL_DEBUG", "not set", "`WARN`", "NCCL says what failed, where it says only that something did otherwise"},
	{
		"NCCL_RAS_ADDR", "not set", "localhost and a port of the job's own",
		"jobs on one host must not meet at NCCL's port 28028",
	},
	{
		"NCCL_*, GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, HSA_* of the table", "not set", "where the hosts ask for it",
		"a wrong interface is the most frequent cause of a hang; `--tune off` adds none",
	},
	{
		"CUDA_DEVICE_ORDER", "not set", "`PCI_BUS_ID`",
		"GPUs of different kinds in one host have the numbers that nvidia-smi and gorun show",
	},
	{"GORUN_JOB", "not set", "marker of the job", "gorun finds every process of the job by it, and ends it"},
	{
		"GORUN_JOB_STORE", "not set", "host:port of gorun's own store",
		"Go programs meet there even where MASTER_PORT is left to rank 0",
	},
	{
		"MASTER_ADDR", "`localhost`, or the host's full name on several nodes", "an address",
		"names resolve differently on other hosts, or not at all",
	},
	{
		"MASTER_PORT", "a free port", "a free port, or the one that the environment or -x names",
		"torchrun reads only --master-port; gorun respects MASTER_PORT, too",
	},
	{
		"TORCHELASTIC_RUN_ID", "a random text on one node, whatever --rdzv-id says, unless --master-port or " +
			"--rdzv-endpoint is given; else --rdzv-id or `none`",
		"--rdzv-id, else a random text (with --standalone in any case)", "jobs without an id must not have the same",
	},
	{
		"TORCHELASTIC_ERROR_FILE", "a file in a new temporary directory", "a file in the job's own directory",
		"values that are made up differ",
	},
	{
		"TORCHELASTIC_*", "passed on from an outer torchrun, unless it sets them itself",
		"removed from what is inherited; with `--store=rank0` none is set but the attempt and its limit with " +
			"`--max-restarts`",
		"they describe another job; in rank0 mode they would make a client of the rank that has to serve the store",
	},
	{
		"GORUN_*", "passed on", "removed, except GORUN_PYTHON and what -x names",
		"defaults of options are meant for one gorun, not for another inside its ranks",
	},
	{
		"PMI_*, PMIX_RANK, PMIX_SERVER_*, OMPI_COMM_* and others of the table", "passed on", "removed",
		"a rank that reads them would be the same rank of an outer job as all others",
	},
	{
		"SLURM_PROCID, SLURM_NTASKS and others of the table", "passed on",
		"what srun would say of the ranks, inside Slurm; else removed",
		"they number the one task that the launcher is; programs that read them would all be rank 0",
	},
	{
		"SLURM_CPU_BIND*, SLURM_DISTRIBUTION, SLURM_DIST_*, SLURM_LABELIO", "passed on", "removed, unless -x names them",
		"an srun inside a rank would take them for options",
	},
	{"PWD", "passed on", "passed on; the working directory with --chdir", "torchrun has no such option"},
	{
		"LC_CTYPE", "`C.UTF-8` where the locale is C", "passed on",
		"torchrun's own Python sets it for its children; each rank's Python does so for itself",
	},
	{"_", "set by the shell to torchrun's path", "set by the shell to gorun's path", "it is the shell's"},
}

// DifferencesFromTorchrun returns all intended differences from a torchrun worker's environment.
func DifferencesFromTorchrun() []Difference { return differences[:] }
