package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// openMPIDaemon is the address of mpirun's daemon. nowhere is an address without a listener.
const (
	openMPIDaemon = "OMPI_MCA_orte_local_daemon_uri"
	nowhere       = "1.0;tcp://127.0.0.1:1"
)

// openMPIRules are the variables that Open MPI's mpirun sets besides PMIx's. OMPI_UNIVERSE_SIZE is not among
// them, because mpirun 4 refuses to run in a rank that has it.
func openMPIRules() []*rule {
	return slices.Concat(
		mpiRows(ClassIdentity, "Open MPI",
			given(openMPIDaemon, "`"+nowhere+"`, where no server listens",
				"Open MPI 4 looks for a launcher only if a variable names one; mpirun inside a rank ignores this one",
				ofJob, always(nowhere)),
		),
		mpiRows(ClassSetting, "Open MPI",
			given("OMPI_MCA_mpi_yield_when_idle", "`1` if a node has more ranks than CPUs",
				"a waiting rank of Open MPI 4 keeps its CPU from the rank that it waits for", ofNode, crowded("1")),
		),
		mpiRows(ClassIdentity, "Open MPI",
			given("OMPI_COMM_WORLD_RANK", "the rank in its MPI_COMM_WORLD", "frameworks and scripts read it", ofRank,
				view.worldRank),
			given("OMPI_COMM_WORLD_SIZE", "size of that MPI_COMM_WORLD",
				"frameworks and scripts read it", ofWorld, view.worldSize),
			given("OMPI_COMM_WORLD_LOCAL_RANK", "the rank among those of its MPI_COMM_WORLD on its host",
				"programs select their GPU by it", ofRank, view.worldLocalRank),
			given("OMPI_COMM_WORLD_LOCAL_SIZE", "number of these ranks", "ranks on this host", ofNode, view.worldLocalSize),
			given("OMPI_COMM_WORLD_NODE_RANK", "the rank among all of the job on its host", "scripts read it", ofRank,
				func(p view) string { return strconv.Itoa(p.own().MPI.NodeRank) }),
			given("OMPI_NUM_APP_CTX", "number of programs in its MPI_COMM_WORLD", "Open MPI 4 uses it for MPI_INFO_ENV", ofWorld,
				func(p view) string { return strconv.Itoa(len(p.world().Apps)) }),
			given("OMPI_APP_CTX_NUM_PROCS", "the numbers of their ranks: `1 3`", "as OMPI_NUM_APP_CTX", ofWorld,
				func(p view) string { return list(p.world().Apps) }),
			given("OMPI_FIRST_RANKS", "the first rank of each: `0 1`", "as OMPI_NUM_APP_CTX", ofWorld,
				func(p view) string { return list(p.world().firstRanks()) }),
		),
	)
}

func (w *World) firstRanks() []int {
	first, next := make([]int, len(w.Apps)), 0
	for i, n := range w.Apps {
		first[i] = next
		next += n
	}
	return first
}

// list formats numbers with blanks between them.
func list(numbers []int) string { return strings.Trim(fmt.Sprint(numbers), "[]") }
