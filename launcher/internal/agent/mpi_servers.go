package agent

import (
	"maps"
	"os"
	"slices"

	"gorun/launcher/internal/process"
	"gorun/rendezvous/pmi"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

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

// server returns the server of a protocol. It creates it on first use, with all worlds and ended ranks.
func (m *mpi) server(p protocol) mpiServer {
	m.serversMu.Lock()
	defer m.serversMu.Unlock()
	if m.servers[p] != nil {
		return m.servers[p]
	}
	s := m.hooks.servers[p](m)
	m.servers[p] = s
	m.mu.Lock()
	m.numServers++
	worlds := slices.Collect(maps.Values(m.worlds))
	m.mu.Unlock()
	for _, w := range worlds {
		s.Add(w)
	}
	for _, rank := range m.ended {
		if p, ok := m.proc(rank); ok {
			s.Ended(p)
		}
	}
	if observer, ok := s.(outputObserver); ok {
		m.observer.Store(&observer)
	}
	return s
}

// startServers creates all servers, to answer other nodes whose ranks use MPI. This node's ranks may not have started.
func (m *mpi) startServers() {
	if m.cfg.Offered {
		for p := range m.servers {
			m.server(protocol(p))
		}
	}
}

// existingServers returns the servers created so far. serversMu is held.
func (m *mpi) existingServers() []mpiServer {
	return slices.DeleteFunc(slices.Clone(m.servers[:]), func(s mpiServer) bool { return s == nil })
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
