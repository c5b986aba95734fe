package plan

import "slices"

// pmixRules are PMIx's: of what its servers put into the environment of clients that
// without which no client of 3.2 to 6.1 finds its server, or speaks otherwise with it. The
// variables of directories (PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR) are none of these; an
// mpirun which a rank runs would take them for its own.
var pmixRules = slices.Concat(
	mpiRows(ClassIdentity, "PMIx",
		given("PMIX_NAMESPACE", "the name of the rank's MPI_COMM_WORLD, which nobody can guess",
			"MPI_Init of Open MPI, and of others built with PMIx, says it to its server", ofWorld,
			func(p view) string { return p.world().Name }),
		given("PMIX_RANK", "the rank in its MPI_COMM_WORLD", "which rank this is", ofRank, view.worldRank),
		given("PMIX_SERVER_URI3", "where the PMIx server of the rank's node is, on the loopback interface",
			"where the rank reaches gorun; of PMIx's names for it (URI, URI2, ...) the one that clients of all versions "+
				"read alike", ofJob, func(p view) string { return p.in.MPI.URI }),
		constant("PMIX_SECURITY_MODE", "native", "who a client is the kernel's user id says; other modes need a daemon"),
		constant("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", "how messages are written"),
		constant("PMIX_GDS_MODULE", "hash", "what the server knows comes in messages, not in files"),
		constant("PMIX_VERSION", "4.2.2", "which of the servers that clients know this one is like"),
		given("PMIX_HOSTNAME", "the name of the rank's host, as its peers hear it", "by it clients know who is near", ofNode,
			func(p view) string { return p.own().MPI.Host }),
	),
)

// word is a variable that is the same in every job.
func constant(name, value, reason string) rule {
	return given(name, "`"+value+"`", reason, ofJob, always(value))
}
