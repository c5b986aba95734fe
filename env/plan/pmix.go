package plan

import "slices"

// pmixRules are PMIx's variables. They are the ones that clients of PMIx 3.2 to 6.1 need to find their server
// and to use the right protocol. The directories (PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR) are not among them:
// an mpirun in a rank would use them for itself.
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
		given("PMIX_HOSTNAME", "the name of the rank's host for its peers", "clients compare it to find ranks on their host",
			ofNode,
			func(p view) string { return p.own().MPI.Host }),
	),
)

// constant is a variable with the same value in every job.
func constant(name, value, reason string) rule {
	return given(name, "`"+value+"`", reason, ofJob, always(value))
}
