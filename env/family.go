package env

// family is the set of names by which one kind of launcher tells a rank its
// place. An empty name is something that the launcher does not tell.
type family struct {
	launcher   string
	rank, size string
	localRank  string
	localSize  string
	localPeers string // a comma list of the node's ranks, where there is no localSize
	node       string
	nodes      string
	onlyWith   string // a variable without which the others prove nothing
}

// contract is what gorun and torchrun set.
var contract = family{
	launcher: "torchrun",
	rank:     VarRank, size: VarWorldSize,
	localRank: VarLocalRank, localSize: VarLocalWorldSize,
	node: VarGroupRank, nodes: VarGroupWorldSize,
}

// others are the families that are tried where the contract is absent, the
// innermost launcher first: mpirun inside a Slurm job leaves Slurm's variables.
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
		// A batch script has SLURM_PROCID=0 too; only a step's tasks are ranks. With
		// --mpi=pmi2 there is PMI_RANK as well, but no local rank in that family.
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

// family finds the variables to read. Those of MPI's launchers that gorun itself set stay
// in the environment of an mpirun which a rank starts, and those of that one count.
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

// ofWorld reports whether a family says what gorun does of the rank's place in its
// MPI_COMM_WORLD.
func (r *reader) ofWorld(f family) bool {
	world := r.text(VarJobWorld)
	return world != "" && world == r.text(f.rank)+"/"+r.text(f.size)
}

func (r *reader) complete(f family) bool {
	return r.has(f.rank) && r.has(f.size) && (f.onlyWith == "" || r.has(f.onlyWith))
}
