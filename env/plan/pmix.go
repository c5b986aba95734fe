package plan

// pmixRules are PMIx's: of what its servers put into the environment of clients that
// without which no client of 3.2 to 6.1 finds its server, or speaks otherwise with it. The
// variables of directories (PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR) are none of these; an
// mpirun which a rank runs would take them for its own.
var pmixRules = [...]rule{
	{
		Row: Row{
			"PMIX_NAMESPACE", ClassIdentity, "the name of the rank's MPI_COMM_WORLD, which nobody can guess",
			"MPI_Init of Open MPI, and of others built with PMIx, says it to its server", "PMIx",
		},
		needs: (*MPI).any, perWorld: true, value: mpiRank(func(_ InWorld, w *World) string { return w.Name }),
	},
	{
		Row:   Row{"PMIX_RANK", ClassIdentity, "the rank in its MPI_COMM_WORLD", "which rank this is", "PMIx"},
		needs: (*MPI).any, perRank: true, value: mpiRank(worldRank),
	},
	{
		Row: Row{
			"PMIX_SERVER_URI3", ClassIdentity, "where the PMIx server of the rank's node is, on the loopback interface",
			"where the rank reaches gorun; of PMIx's names for it (URI, URI2, ...) the one that clients of all versions read " +
				"alike", "PMIx",
		},
		needs: (*MPI).any, value: func(b *builder, _ int) (string, bool) { return b.in.MPI.URI, true },
	},
	pmixWord("PMIX_SECURITY_MODE", "native", "who a client is the kernel's user id says; other modes need a daemon"),
	pmixWord("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", "how messages are written"),
	pmixWord("PMIX_GDS_MODULE", "hash", "what the server knows comes in messages, not in files"),
	pmixWord("PMIX_VERSION", "4.2.2", "which of the servers that clients know this one is like"),
	{
		Row: Row{
			"PMIX_HOSTNAME", ClassIdentity, "the name of the rank's host, as its peers hear it",
			"by it clients know who is near", "PMIx",
		},
		needs: (*MPI).any, perNode: true, value: mpiRank(func(m InWorld, _ *World) string { return m.Host }),
	},
}

// pmixWord is a variable that is the same in every job.
func pmixWord(name, value, reason string) rule {
	return rule{
		Row:   Row{name, ClassIdentity, "`" + value + "`", reason, "PMIx"},
		needs: (*MPI).any, value: func(*builder, int) (string, bool) { return value, true },
	}
}
