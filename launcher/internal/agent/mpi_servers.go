package agent

import (
	"os"

	"gorun/launcher/internal/process"
	"gorun/rendezvous/pmi"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

// realMPI are the servers of packages pmi and pmix.
var defaultMPIHooks = mpiHooks{
	servers: [numProtocols]func(m *mpi) mpiServer{
		protocolPMI: func(m *mpi) mpiServer {
			return pmi.New(pmi.Config{
				Exchange: m.job.plane, Launcher: m, Exited: m.exited, Only: m.cfg.Only,
				Claim: m.claim, TopologyFile: m.topologyFile,
			})
		},
		protocolPMIx: func(m *mpi) mpiServer {
			return pmix.New(pmix.Config{
				Exchange: m.job.plane, Launcher: m, Exited: m.exited, Only: m.cfg.Only, UID: os.Getuid(),
				Dir: m.privateDir, OnCleanup: m.noteSharedFiles, Topology: m.topology,
			})
		},
	},
	mapped: process.MappedIn,
}

// exited reports the exit of a rank to the other nodes, once every server that was made has served what the rank sent.
func (m *mpi) exited(p world.Proc) {
	m.mu.Lock()
	m.leftCount[p]++
	last := m.leftCount[p] == m.numServers
	m.mu.Unlock()
	if last {
		m.job.plane.RankExited(p)
	}
}
