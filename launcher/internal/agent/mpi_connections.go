package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"gorun/internal/peersocket"
	"gorun/launcher/internal/process"
	"gorun/rendezvous/world"
)

// mpiPort is a port at which a protocol is served.
type mpiPort struct {
	*loopbackPort
	protocol string
	serve    func(conn net.Conn, inode uint64) // inode: of the peer's socket
}

// openPort opens a port and returns its number. On error it notifies the user and returns 0.
func (m *mpi) openPort(protocol, programs string, serve func(conn net.Conn, inode uint64)) int {
	port, err := openLoopbackPort()
	if err != nil {
		m.job.agent.notice("cannot serve %s, so %s programs cannot start: %v", protocol, programs, err)
		return 0
	}
	m.ports = append(m.ports, &mpiPort{port, protocol, serve})
	return port.port
}

// acceptConnections accepts connections to the ports, including those made since open.
func (m *mpi) acceptConnections() {
	for _, p := range m.ports {
		m.busy.Go(func() { m.accept(p) })
	}
}

// acceptPause is the pause after a failed accept, such as for lack of descriptors.
const acceptPause = 10 * time.Millisecond

// accept serves the connections to a port. The kernel tells the user who owns the peer's socket; connections of users
// other than this one and root are closed.
func (m *mpi) accept(p *mpiPort) {
	l, err := p.listen()
	if err != nil {
		return // it is closed
	}
	var peers peersocket.Finder
	defer peers.Close()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			here, there := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
			owner, err := peers.Owner(peersocket.Ends{Local: here.AddrPort(), Remote: there.AddrPort()})
			if err == nil && owner.Trusted() {
				m.busy.Go(func() { m.serveConn(conn, func() { p.serve(conn, owner.Inode) }) })
			} else {
				m.refuse(conn, p.protocol, owner, err)
			}
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-m.over:
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// refuse closes a connection. It reports only the first one.
func (m *mpi) refuse(conn net.Conn, protocol string, owner peersocket.Owner, err error) {
	_ = conn.Close()
	why := fmt.Sprintf("it belongs to user %d, and only the job's user and root may connect", owner.UID)
	if err != nil {
		why = fmt.Sprintf("its user is unknown: %v", err)
	}
	m.refused.Do(func() { m.job.agent.notice("a %s client was refused: %s", protocol, why) })
}

// serveConn serves a connection, which the end of the job closes. After that it serves no more.
func (m *mpi) serveConn(conn net.Conn, serve func()) {
	defer conn.Close()
	m.mu.Lock()
	closed := m.closed
	m.conns[conn] = true
	m.mu.Unlock()
	if !closed {
		serve()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, conn)
}

func (m *mpi) servePMIx(conn net.Conn, _ uint64) {
	m.server(protocolPMIx).Serve(conn, world.Proc{Rank: world.AllRanks})
}

// PMI_PORT is the alternative to a rank's socket, for MPI programs started by something that closes inherited
// descriptors. A PMI client cannot prove its identity; but the port is on 127.0.0.1, where the kernel knows the
// owner of the peer's socket. A client that claims a rank must be that rank or a process that it has started.

// pmiPortConn is a connection to PMI_PORT.
type pmiPortConn struct {
	net.Conn
	inode uint64        // of the peer's socket
	over  chan struct{} // closed when all that the client sent was served
}

func (m *mpi) servePMIPort(conn net.Conn, inode uint64) {
	c := &pmiPortConn{conn, inode, make(chan struct{})}
	defer close(c.over)
	m.server(protocolPMI).Serve(c, world.Proc{Rank: world.AllRanks})
}

// claim checks the rank that a client of PMI_PORT claims to be.
func (m *mpi) claim(conn net.Conn, id int) (world.Proc, error) {
	c, ok := conn.(*pmiPortConn)
	if !ok {
		return world.Proc{}, errors.New("it did not connect to PMI_PORT")
	}
	p, known := m.proc(id)
	pid := m.job.startedPID(id)
	if !known || pid == 0 {
		return world.Proc{}, fmt.Errorf("it claims rank %d, which is not on this node", id)
	}
	if holds, sure := process.HoldsSocket(pid, c.inode); sure && !holds {
		return world.Proc{}, fmt.Errorf("it claims rank %d, whose process (pid %d) did not start it", id, pid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = c.over
	return p, nil
}

// startedPID returns a rank's pid; 0: none. It waits for a pending start, as a rank may connect before that is over.
func (j *job) startedPID(id int) int {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	if r := j.rank(id); r != nil {
		return int(r.pid.Load())
	}
	return 0
}

// socketReadable takes over the socket of a rank that has written to it. It is called on a spawner thread.
func (m *mpi) socketReadable(rank, fd int) {
	over := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = syscall.Close(fd)
		return
	}
	m.sessions[rank] = over
	m.busy.Go(func() {
		defer close(over)
		m.serveSocket(rank, fd)
	})
}

func (m *mpi) serveSocket(rank, fd int) {
	file := os.NewFile(uintptr(fd), "rank's socket")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		m.job.agent.notice("cannot serve PMI to rank %d: %v", rank, err)
		return
	}
	m.serveConn(conn, func() {
		if p, ok := m.proc(rank); ok {
			m.server(protocolPMI).Serve(conn, p)
		}
	})
}

// sessionLimit bounds the wait for the rest of an exited rank's session. It is in the socket already, but another
// process that holds the socket open hides its end.
const sessionLimit = 100 * time.Millisecond

// afterSession calls do once all that an exited rank sent was served: MPI_Abort is a message and then an exit code.
func (m *mpi) afterSession(rank int, do func()) {
	m.mu.Lock()
	over := m.sessions[rank]
	m.mu.Unlock()
	if over == nil || !m.job.reports.begin() {
		do()
		return
	}
	go func() {
		defer m.job.reports.end()
		select {
		case <-over:
		case <-time.After(sessionLimit):
		}
		do()
	}()
}

// forgetSessions is for reaped ranks.
func (m *mpi) forgetSessions(ranks []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rank := range ranks {
		delete(m.sessions, rank)
	}
}
