package agent

import (
	"os"

	"gorun/rendezvous/pmi"
	"gorun/rendezvous/pmix"
)

// realMPI are the servers of packages pmi and pmix.
var realMPI = mpiMakers{
	pmi: func(m *mpi) pmiServer {
		return pmi.New(pmi.Config{Node: m.wish.Node, Plane: m.job.plane, Launcher: m, OnlyVersion: m.wish.PMIVersion, Claim: m.claim})
	},
	pmix: func(m *mpi) pmixServer {
		return pmix.New(pmix.Config{Node: m.wish.Node, Plane: m.job.plane, Launcher: m, UID: os.Getuid(), Dir: m.privateDir, Leaves: m.leaves})
	},
}
