package agent

import (
	"os"

	"gorun/launcher/internal/process"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/pmi"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

// realMPI are the servers of packages pmi and pmix.
var defaultMPIHooks = mpiHooks{
	servers: [numProtocols]func(m *mpi) mpiServer{
		protocolPMI: func(m *mpi) mpiServer {
			return pmi.New(pmi.Config{
				Node: m.cfg.Node, Plane: leaveCounter{m.job.plane, m}, Launcher: m, Only: m.cfg.Only,
				Claim: m.claim, TopologyFile: m.topologyFile,
			})
		},
		protocolPMIx: func(m *mpi) mpiServer {
			return pmix.New(pmix.Config{
				Node: m.cfg.Node, Plane: leaveCounter{m.job.plane, m}, Launcher: m, Only: m.cfg.Only, UID: os.Getuid(),
				Dir: m.privateDir, Leaves: m.noteSharedFiles, Topology: m.topology,
			})
		},
	},
	mapped: process.MappedIn,
}

// leaving is the plane as servers have it. Each says of a rank that has ended when all its words to it have been heard:
// other nodes hear of that once, when all servers have said so. What the rank said at last, to whichever, counts before
// its end.
type leaveCounter struct {
	exchange.Plane
	m *mpi
}

func (l leaveCounter) Leave(p world.Proc) {
	if l.m.leftEverywhere(p) {
		l.Plane.Leave(p)
	}
}

// hasLeft counts the servers that say so, and reports whether they are all. One that is made later says so again.
func (m *mpi) leftEverywhere(p world.Proc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leftCount[p]++
	return m.leftCount[p] == m.numServers
}
