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
	{"PYTHONUNBUFFERED", "not set", "`1`", "a killed rank's last output is not lost in a buffer"},
	{"PYTHONFAULTHANDLER", "not set", "`1`", "a crash says in which line of the program it was"},
	{"NCCL_DEBUG", "not set", "`WARN`", "NCCL reports the cause of a failure, not only the failure"},
	{
		"NCCL_RAS_ADDR", "not set", "localhost and a port of the job's own",
		"jobs on one host must not share NCCL's port 28028",
	},
	{
		"NCCL_*, GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, HSA_* of the table", "not set", "if the hosts need it",
		"a wrong interface is the most frequent cause of a hang; `--tune off` adds none",
	},
	{
		"CUDA_DEVICE_ORDER", "not set", "`PCI_BUS_ID`",
		"GPUs of different kinds in one host have the numbers that nvidia-smi and gorun show",
	},
	{"GORUN_JOB", "not set", "marker of the job", "gorun finds every process of the job by it, and ends it"},
	{
		"GORUN_JOB_STORE", "not set", "host:port of gorun's own store",
		"Go programs use it even if rank 0 serves MASTER_PORT",
	},
	{
		"MASTER_ADDR", "`localhost`, or the host's full name on several nodes", "an address",
		"names resolve differently on other hosts, or not at all",
	},
	{
		"MASTER_PORT", "a free port", "a free port, or the one that the environment or -x names",
		"torchrun reads only --master-port; gorun respects MASTER_PORT, too, without --standalone",
	},
	{
		"TORCHELASTIC_RUN_ID", "a random text on one node, whatever --rdzv-id says, unless --master-port or " +
			"--rdzv-endpoint is given; else --rdzv-id or `none`",
		"--rdzv-id, else a random text (with --standalone in any case)", "jobs without an id must not have the same",
	},
	{
		"TORCHELASTIC_ERROR_FILE", "a file in a new temporary directory", "a file in the job's own directory",
		"both values are arbitrary",
	},
	{
		"TORCHELASTIC_*", "passed on from an outer torchrun, unless it sets them itself",
		"removed from what is inherited; with `--store=rank0` none is set but the attempt and its limit with " +
			"`--max-restarts`",
		"they describe another job; in rank0 mode they would make rank 0 a client instead of the store",
	},
	{
		"GORUN_*", "passed on", "removed, except GORUN_PYTHON and what -x names",
		"they are defaults of this gorun's options, not of one inside a rank",
	},
	{
		"PMI_*, PMIX_RANK, PMIX_SERVER_*, OMPI_COMM_* and others of the table", "passed on", "removed",
		"all ranks that read them would be the same rank of an outer job",
	},
	{
		"SLURM_PROCID, SLURM_NTASKS and others of the table", "passed on",
		"inside Slurm the values that srun would set; else removed",
		"they describe the launcher's own task; programs that read them would all be rank 0",
	},
	{
		"SLURM_CPU_BIND*, SLURM_DISTRIBUTION, SLURM_DIST_*, SLURM_LABELIO", "passed on", "removed, unless -x names them",
		"an srun inside a rank would read them as options",
	},
	{"PWD", "passed on", "passed on; the working directory with --chdir", "torchrun has no such option"},
	{
		"LC_CTYPE", "`C.UTF-8` where the locale is C", "passed on",
		"torchrun's Python sets it for its children; each rank's Python sets it for itself",
	},
	{"_", "set by the shell to torchrun's path", "set by the shell to gorun's path", "the shell owns it"},
}

// DifferencesFromTorchrun returns all intended differences from a torchrun worker's environment.
func DifferencesFromTorchrun() []Difference { return differences[:] }
