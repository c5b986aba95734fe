package agent

import (
	"errors"
	"fmt"
	"net"

	"gorun/launcher/internal/process"
	"gorun/rendezvous/world"
)

// PMI_PORT is the other way to PMI's server: a port, for ranks whose MPI program is started by
// something that closes the descriptors which it inherited. The protocol has nothing by which
// a client proves who it is. So the port is one of 127.0.0.1, whose other end the kernel knows:
// accept closes a socket of another user's unheard, and one that says it is a rank has to be that
// rank's, or of a process which that has started.

// openPort makes the port, and what ranks' environment tells of it.
func (m *mpi) openPort() {
	var err error
	if m.port, err = openLoopbackPort(); err != nil {
		m.job.agent.notice("PMI is not served, so programs of MPICH's family cannot begin: %v", err)
		return
	}
	m.vars = append(m.vars, fmt.Sprint("PMI_PORT=127.0.0.1:", m.port.port))
}

// caller is the connection of a process that came to PMI_PORT.
type portConn struct {
	net.Conn
	inode uint64        // of its end
	over  chan struct{} // closed when all that it said was heard
}

func (m *mpi) servePortConn(conn net.Conn, inode uint64) {
	c := &portConn{conn, inode, make(chan struct{})}
	defer close(c.over)
	m.server(protocolPMI).Serve(c, world.Proc{Rank: world.AllRanks})
}

// claim says which rank a process is that came to PMI_PORT.
func (m *mpi) claim(conn net.Conn, id int) (world.Proc, error) {
	c, ok := conn.(*portConn)
	if !ok {
		return world.Proc{}, errors.New("it did not come to PMI_PORT")
	}
	p, known := m.proc(id)
	pid := m.job.startedPID(id)
	if !known || pid == 0 {
		return world.Proc{}, fmt.Errorf("it says that it is rank %d, which is not on this node", id)
	}
	if holds, sure := process.HoldsSocket(pid, c.inode); sure && !holds {
		return world.Proc{}, fmt.Errorf("it says that it is rank %d, which did not start it (pid %d)", id, pid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = c.over
	return p, nil
}

// startedPID is the process of a rank, 0 if there is none. A rank may have come to a server
// before its start is over.
func (j *job) startedPID(id int) int {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	if r := j.rank(id); r != nil {
		return int(r.pid.Load())
	}
	return 0
}
