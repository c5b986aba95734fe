package plan

import "slices"

// pmixRules are PMIx's variables. They are the ones that clients of PMIx 3.2 to 6.1 need to find their server
// and to use the right protocol. The directories (PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR) are not among them:
// an mpirun in a rank would use them for itself.
func pmixRules() []*rule {
	return slices.Concat(
		mpiRows(ClassIdentity, "PMIx",
			given("PMIX_NAMESPACE", "secret name of the rank's MPI_COMM_WORLD",
				"MPI_Init of Open MPI, and of other libraries with PMIx, sends it to its server", ofWorld,
				func(p view) string { return p.world().Name }),
			given("PMIX_RANK", "the rank in its MPI_COMM_WORLD", "number of the rank", ofRank, view.worldRank),
			given("PMIX_SERVER_URI3", "address of the PMIx server of the rank's node, on the loopback interface",
				"address of gorun; all versions of PMIx read this name (not URI, URI2, ...) alike",
				ofJob, func(p view) string { return p.in.MPI.URI }),
			constant("PMIX_SECURITY_MODE", "native", "the kernel's user id identifies clients; other modes need a daemon"),
			constant("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", "format of messages"),
			constant("PMIX_GDS_MODULE", "hash", "data comes from the server in messages, not in files"),
			constant("PMIX_VERSION", "4.2.2", "version of PMIx that gorun emulates"),
			given("PMIX_HOSTNAME", "the name of the rank's host for its peers", "clients compare it to find ranks on their host",
				ofNode,
				func(p view) string { return p.own().MPI.Host }),
		),
	)
}

// constant is a variable with the same value in every job.
func constant(name, value, reason string) *rule {
	return given(name, "`"+value+"`", reason, ofJob, always(value))
}
