package plan

import "strconv"

// pmiRules are PMI's and MPICH's: what Hydra gives a rank, of which MPICH, Intel MPI,
// MVAPICH and programs of PMI's own libraries know where their server is and who they are.
var pmiRules = [...]rule{
	{
		Row: Row{
			"PMI_FD", ClassIdentity, "the descriptor of the rank's connection to its PMI server; every rank inherits it",
			"MPI_Init of MPICH, Intel MPI and MVAPICH asks there", "PMI",
		},
		needs: (*MPI).hasFD, value: func(b *builder, _ int) (string, bool) { return b.in.MPI.FD, true },
	},
	{
		Row: Row{
			"PMI_PORT", ClassIdentity,
			"with `--pmi-port` instead: the port of the rank's node, on the loopback interface, where its PMI server is",
			"a program whose parent has closed PMI_FD, as Python's subprocess does, finds its server there", "PMI",
		},
		needs: (*MPI).hasPort, value: func(b *builder, _ int) (string, bool) { return b.in.MPI.Port, true },
	},
	{
		Row: Row{
			"PMI_ID", ClassIdentity, "with `--pmi-port` the rank in the job",
			"by it a rank says at that port who it is", "PMI",
		},
		needs: (*MPI).hasPort, perRank: true, value: mpiRank(func(m InWorld, _ *World) string { return strconv.Itoa(m.Job) }),
	},
	{
		Row: Row{
			"PMI_RANK", ClassIdentity, "the rank in its MPI_COMM_WORLD",
			"which rank this is; frameworks read it, too", "PMI",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(worldRank),
	},
	{
		Row:   Row{"PMI_SIZE", ClassIdentity, "the size of that", "ranks of this MPI_COMM_WORLD", "PMI"},
		needs: (*MPI).any, perWorld: true, value: mpiRank(worldSize),
	},
	{
		Row:   Row{"PMI_SPAWNED", ClassIdentity, "`1` in ranks of MPI_Comm_spawn", "such ranks have a parent", "PMI"},
		needs: (*MPI).any, perWorld: true, value: mpiRank(func(_ InWorld, w *World) string {
			if w.Spawned {
				return "1"
			}
			return ""
		}),
	},
	{
		Row: Row{
			"MPI_LOCALRANKID", ClassIdentity, "the rank among those of its MPI_COMM_WORLD on its host",
			"programs choose their GPU by it", "MPICH",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(worldLocalRank),
	},
	{
		Row:   Row{"MPI_LOCALNRANKS", ClassIdentity, "how many those are", "ranks on this host", "MPICH"},
		needs: (*MPI).any, perNode: true, value: mpiRank(worldLocalSize),
	},
	{
		Row: Row{
			"MPIR_CVAR_PMI_VERSION", ClassSetting, "`1`; `2` with `--mpi=pmi2`, `x` with `--mpi=pmix`",
			"MPICH from 4.2 on stops where it finds PMI and PMIx and nobody says which", "MPICH",
		},
		needs: (*MPI).any, value: func(b *builder, _ int) (string, bool) { return b.in.MPI.Version, b.in.MPI.Version != "" },
	},
	{
		Row: Row{
			"PMI_HOSTNAME", ClassSetting, "with several hosts the address by which the others reach the rank's",
			"MPICH goes by the host's name, which is often 127.0.1.1", "MPICH",
		},
		needs: (*MPI).any, perNode: true, value: (*builder).reachableAt,
	},
	{
		Row: Row{
			"I_MPI_THREAD_YIELD", ClassSetting, "`3` where a node has more ranks than CPUs for them",
			"a rank of Intel MPI that waits keeps its CPU from the one it waits for; 3 is to sleep a little", "Intel MPI",
		},
		needs: (*MPI).any, perNode: true, value: crowded("3"),
	},
	{
		Row: Row{
			"UCX_DEBUG_SIGNO", ClassSetting, "`0`",
			"UCX, by which MPICH and Open MPI may send, would answer SIGHUP by hundreds of lines of its own", "UCX",
		},
		needs: (*MPI).any, value: func(*builder, int) (string, bool) { return "0", true },
	},
	{
		Row:   Row{"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", ClassSetting, "as PMI_HOSTNAME", "its name before MPICH 4.3", "MPICH"},
		needs: (*MPI).any, perNode: true, value: (*builder).reachableAt,
	},
}

// crowded is a value for ranks of nodes that have more ranks than CPUs for them.
func crowded(value string) func(b *builder, rank int) (string, bool) {
	return func(b *builder, rank int) (string, bool) { return value, b.in.Nodes[b.in.Ranks[rank].Node].Crowded }
}

// reachableAt is the address by which other hosts reach a rank's.
func (b *builder) reachableAt(rank int) (string, bool) {
	address := b.in.Nodes[b.in.Ranks[rank].Node].Address
	return address, address != "" && b.in.MPI.SeveralHosts
}

// list writes numbers with blanks between them.
func list(numbers []int) string {
	text := make([]byte, 0, 2*len(numbers))
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(text)
}
