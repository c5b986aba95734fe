package env

// family is the set of variables with which one kind of launcher describes a rank. An empty name means that
// the launcher provides no such value.
type family struct {
	launcher   string
	rank, size string
	localRank  string
	localSize  string
	localPeers string // a comma-separated list of the node's ranks, used without localSize
	node       string
	nodes      string
	onlyWith   string // the family applies only if this variable is set
}

// contract names the variables that gorun and torchrun set.
var contract = family{
	launcher: "torchrun",
	rank:     VarRank, size: VarWorldSize,
	localRank: VarLocalRank, localSize: VarLocalWorldSize,
	node: VarGroupRank, nodes: VarGroupWorldSize,
}

// others are the families to try if the contract is absent, innermost launcher first: mpirun in a Slurm job
// keeps Slurm's variables.
var others = [...]family{
	{
		launcher: "mpirun", // Open MPI
		rank:     "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		localRank: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
	},
	{
		launcher: "mpirun_rsh", // MVAPICH2
		rank:     "MV2_COMM_WORLD_RANK", size: "MV2_COMM_WORLD_SIZE",
		localRank: "MV2_COMM_WORLD_LOCAL_RANK", localSize: "MV2_COMM_WORLD_LOCAL_SIZE",
	},
	{
		launcher: "mpiexec", // MPICH's Hydra, Intel MPI
		rank:     "PMI_RANK", size: "PMI_SIZE",
		localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS",
		onlyWith: "MPI_LOCALRANKID",
	},
	{
		// A batch script has SLURM_PROCID=0 too, but only the tasks of a step are ranks. With --mpi=pmi2 there
		// is PMI_RANK as well, but no local rank in that family.
		launcher: "srun",
		rank:     "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS",
		localRank: "SLURM_LOCALID", localPeers: "SLURM_GTIDS",
		node: "SLURM_NODEID", nodes: "SLURM_STEP_NUM_NODES",
		onlyWith: "SLURM_STEP_ID",
	},
	{
		launcher: "mpiexec", // any other launcher that speaks PMI
		rank:     "PMI_RANK", size: "PMI_SIZE",
	},
}

// family returns the family to read. An mpirun started by a rank inherits the MPI variables that gorun set.
// A family with other values takes precedence, since mpirun set it.
func (r *reader) family() (family, bool) {
	if r.has(VarRank) {
		return contract, true
	}
	var found []family
	for _, f := range others {
		if !r.complete(f) {
			continue
		}
		if !r.ofWorld(f) {
			return f, true
		}
		found = append(found, f)
	}
	if len(found) == 0 {
		return family{}, false
	}
	return found[0], true
}

// ofWorld reports whether a family has the rank and size that gorun set for the rank's MPI_COMM_WORLD.
func (r *reader) ofWorld(f family) bool {
	world := r.text(VarJobWorld)
	return world != "" && world == r.text(f.rank)+"/"+r.text(f.size)
}

func (r *reader) complete(f family) bool {
	return r.has(f.rank) && r.has(f.size) && (f.onlyWith == "" || r.has(f.onlyWith))
}
