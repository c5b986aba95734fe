package plan

import (
	"slices"
	"strconv"
)

// pmiRules are the variables of PMI and MPICH. Like Hydra's, they give MPICH, Intel MPI, MVAPICH and users of
// PMI's own libraries the server's address and the rank.
func pmiRules() []*rule {
	return slices.Concat(
		mpiRows(ClassIdentity, "PMI",
			given("PMI_FD", "the descriptor of the rank's connection to its PMI server; every rank inherits it",
				"MPI_Init of MPICH, Intel MPI and MVAPICH uses it", ofJob,
				func(p view) string { return p.in.MPI.FD }).where((*builder).hasFD),
			given("PMI_PORT",
				"with `--pmi-port` instead: the port of the rank's node, on the loopback interface, where its PMI server is",
				"a program whose parent has closed PMI_FD, as Python's subprocess does, finds its server there", ofJob,
				func(p view) string { return p.in.MPI.Port }).where((*builder).hasPort),
			given("PMI_ID", "with `--pmi-port` the rank in the job", "a rank identifies itself by it at that port", ofRank,
				func(p view) string { return strconv.Itoa(p.own().MPI.Job) }).where((*builder).hasPort),
			given("PMI_RANK", "the rank in its MPI_COMM_WORLD", "number of the rank; frameworks read it, too", ofRank,
				view.worldRank),
			given("PMI_SIZE", "size of that MPI_COMM_WORLD", "ranks of this MPI_COMM_WORLD", ofWorld, view.worldSize),
			given("PMI_SPAWNED", "`1` in ranks of MPI_Comm_spawn", "such ranks have a parent", ofWorld,
				func(p view) string { return only(p.world().Spawned, "1") }),
		),
		mpiRows(ClassIdentity, "MPICH",
			given("MPI_LOCALRANKID", "the rank among those of its MPI_COMM_WORLD on its host", "programs select their GPU by it",
				ofRank, view.worldLocalRank),
			given("MPI_LOCALNRANKS", "number of these ranks", "ranks on this host", ofNode, view.worldLocalSize),
		),
		mpiRows(ClassSetting, "MPICH",
			given("MPIR_CVAR_PMI_VERSION", "`1`; `2` with `--mpi=pmi2`, `x` with `--mpi=pmix`",
				"MPICH 4.2 and later stops if it finds both PMI and PMIx without a choice", ofJob,
				func(p view) string { return p.in.MPI.Version }),
			given("PMI_HOSTNAME", "with several hosts the address at which others reach the rank's host",
				"MPICH uses the host's name, which often resolves to 127.0.1.1", ofNode, view.reachableAt),
		),
		mpiRows(ClassSetting, "Intel MPI",
			given("I_MPI_THREAD_YIELD", "`3` if a node has more ranks than CPUs",
				"a waiting rank of Intel MPI keeps its CPU from the rank that it waits for; 3 lets it sleep", ofNode,
				crowded("3")),
		),
		mpiRows(ClassSetting, "UCX",
			given("UCX_DEBUG_SIGNO", "`0`",
				"UCX, which MPICH and Open MPI can use, would print hundreds of lines on SIGHUP", ofJob,
				always("0")),
		),
		mpiRows(ClassSetting, "MPICH",
			given("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "as PMI_HOSTNAME", "its name before MPICH 4.3", ofNode, view.reachableAt),
		),
	)
}

// crowded returns a value for ranks of nodes with more ranks than CPUs.
func crowded(value string) func(view) string {
	return func(p view) string { return only(p.node().Crowded, value) }
}

// reachableAt returns the address at which other hosts reach a rank's node.
func (p view) reachableAt() string { return only(p.in.MPI.SeveralHosts, p.node().Address) }
