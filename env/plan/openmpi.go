package plan

import "strconv"

// openMPIDaemon says where mpirun's daemon is; nowhere, that nobody is there.
const (
	openMPIDaemon = "OMPI_MCA_orte_local_daemon_uri"
	nowhere       = "1.0;tcp://127.0.0.1:1"
)

// openMPIRules are Open MPI's own, which its mpirun sets beside PMIx's. OMPI_UNIVERSE_SIZE
// is none of them: with it mpirun 4 refuses to run in a rank.
var openMPIRules = [...]rule{
	{
		Row: Row{
			openMPIDaemon, ClassIdentity, "`" + nowhere + "`, where nobody is",
			"Open MPI 4 asks its launcher for its rank only where a variable says that there is one; mpirun in a rank does " +
				"not mind this one", "Open MPI",
		},
		needs: (*MPI).any, value: func(*builder, int) (string, bool) { return nowhere, true },
	},
	{
		Row: Row{
			"OMPI_MCA_mpi_yield_when_idle", ClassSetting, "`1` where a node has more ranks than CPUs for them",
			"a rank of Open MPI 4 that waits keeps its CPU from the one it waits for", "Open MPI",
		},
		needs: (*MPI).any, perNode: true, value: crowded("1"),
	},
	{
		Row: Row{
			"OMPI_COMM_WORLD_RANK", ClassIdentity, "the rank in its MPI_COMM_WORLD",
			"frameworks and scripts read it", "Open MPI",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(worldRank),
	},
	{
		Row:   Row{"OMPI_COMM_WORLD_SIZE", ClassIdentity, "the size of that", "frameworks and scripts read it", "Open MPI"},
		needs: (*MPI).any, perWorld: true, value: mpiRank(worldSize),
	},
	{
		Row: Row{
			"OMPI_COMM_WORLD_LOCAL_RANK", ClassIdentity, "the rank among those of its MPI_COMM_WORLD on its host",
			"programs choose their GPU by it", "Open MPI",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(worldLocalRank),
	},
	{
		Row:   Row{"OMPI_COMM_WORLD_LOCAL_SIZE", ClassIdentity, "how many those are", "ranks on this host", "Open MPI"},
		needs: (*MPI).any, perNode: true, value: mpiRank(worldLocalSize),
	},
	{
		Row: Row{
			"OMPI_COMM_WORLD_NODE_RANK", ClassIdentity, "the rank among all of the job on its host",
			"scripts read it", "Open MPI",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(func(m InWorld, _ *World) string {
			return strconv.Itoa(m.NodeRank)
		}),
	},
	{
		Row: Row{
			"OMPI_NUM_APP_CTX", ClassIdentity, "number of programs in its MPI_COMM_WORLD",
			"Open MPI 4 has it for MPI_INFO_ENV", "Open MPI",
		},
		needs: (*MPI).any, perWorld: true, value: mpiRank(func(_ InWorld, w *World) string {
			return strconv.Itoa(len(w.Apps))
		}),
	},
	{
		Row: Row{
			"OMPI_APP_CTX_NUM_PROCS", ClassIdentity, "the numbers of their ranks: `1 3`", "as OMPI_NUM_APP_CTX",
			"Open MPI",
		},
		needs: (*MPI).any, perWorld: true, value: mpiRank(func(_ InWorld, w *World) string { return list(w.Apps) }),
	},
	{
		Row:   Row{"OMPI_FIRST_RANKS", ClassIdentity, "the first rank of each: `0 1`", "as OMPI_NUM_APP_CTX", "Open MPI"},
		needs: (*MPI).any, perWorld: true, value: mpiRank(func(_ InWorld, w *World) string { return list(w.firstRanks()) }),
	},
}

func (w *World) firstRanks() []int {
	first, next := make([]int, len(w.Apps)), 0
	for i, n := range w.Apps {
		first[i] = next
		next += n
	}
	return first
}
