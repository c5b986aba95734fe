package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/internal/peersocket"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

// mpi serves MPI's start-up protocols to the ranks of this node, in one attempt of the job. A job
// that uses none pays for a socket a rank and for one that listens: the servers are made when
// somebody comes to them.
type mpi struct {
	job          *job
	cfg          wire.MPI // without its worlds
	hooks        mpiHooks
	vars         []string      // of ranks' environment
	loopbackPort *loopbackPort // where PMIx clients come to; nil: it is not served
	over         chan struct{}
	refused      sync.Once     // a client, which was told of
	port         *loopbackPort // PMI_PORT; nil: ranks have a descriptor, or PMI is not served

	// making guards what follows: the servers, nil until somebody comes to them, and those who have ended. What a
	// server calls here never takes it.
	serversMu sync.Mutex
	servers   [numProtocols]mpiServer
	ended     []int // ranks of the job
	// listener is the server that hears what ranks print, once it is there.
	listener atomic.Pointer[outputListener]

	mu       sync.Mutex // guards what follows
	closed   bool
	conns    map[net.Conn]bool
	sessions map[int]chan struct{}   // by rank that has spoken at its socket: closed when that has ended
	states   map[int]*spec.RankMPI   // by rank
	worlds   map[string]*world.World // all that are known, by name; they are not changed
	// made is how many servers there are, left how many of them have no more words of a rank that has ended.
	numServers int
	leftCount  map[world.Proc]int
	// spoken are the protocols by which ranks have begun; mixed says that it was looked whether two of
	// them wait for each other.
	protocols       protocolsSeen
	mixtureReported bool
	// libraries are those that ranks were seen with; warned says that one was told of.
	libraries map[int]library
	warned    bool
	// file is the MPI library by which the first rank here has begun, as far as it was seen.
	file string
	// topology describes this machine in hwloc's XML, and topologyFile gives a file that has it: both are made
	// when a rank asks first.
	topology, topologyFile func() (string, error)
	busy                   sync.WaitGroup // goroutines
}

// protocol is what a server speaks.
type protocol int

const (
	protocolPMI protocol = iota // PMI-1 and PMI-2
	protocolPMIx
	numProtocols = iota
)

// mpiServer is a server of either.
type mpiServer interface {
	// Serve serves a connection until it ends. p is the rank that has it, as far as that is known.
	Serve(conn net.Conn, p world.Proc)
	Add(w *world.World)
	Ended(p world.Proc)
	Forget(world string)
	Waits() []world.Wait
	Close()
}

// outputListener is a server that hears what ranks print.
type outputListener interface {
	Output(of world.Proc, stream int, b []byte)
	Suspend(suspended bool)
}

// mpiMakers make the servers, and look into processes; a test has others.
type mpiHooks struct {
	servers [numProtocols]func(m *mpi) mpiServer
	// mapped is process.MappedIn.
	mapped func(pid int, dir string, prefixes ...string) []string
}

func (j *job) newMPI() *mpi {
	m := &mpi{
		job: j, cfg: j.start.MPI, hooks: defaultMPIHooks, over: make(chan struct{}),
		conns: map[net.Conn]bool{}, sessions: map[int]chan struct{}{}, states: map[int]*spec.RankMPI{},
		worlds: map[string]*world.World{}, leftCount: map[world.Proc]int{},
	}
	m.topology = sync.OnceValues(hwlocTopology)
	m.topologyFile = sync.OnceValues(m.writeTopology)
	m.cfg.Worlds = nil
	for i := range j.start.MPI.Worlds {
		m.addWorld(&j.start.MPI.Worlds[i])
	}
	return m
}

// open makes what ranks' environment tells of: no more than they need to be started.
func (m *mpi) open() {
	switch {
	case !m.cfg.Offered:
		return
	case m.cfg.PMIPort:
		m.openPort()
	default:
		m.vars = append(m.vars, fmt.Sprint("PMI_FD=", process.RankSocket))
	}
	var err error
	if m.loopbackPort, err = openLoopbackPort(); err != nil {
		m.job.agent.notice("PMIx is not served, so Open MPI programs cannot begin: %v", err)
		return
	}
	m.vars = append(m.vars, "PMIX_SERVER_URI3="+pmix.URI(m.cfg.Node, m.loopbackPort.port))
}

// letIn lets those in who come to the ports, and may have come since open.
func (m *mpi) acceptConnections() {
	if m.loopbackPort != nil {
		m.busy.Go(func() {
			m.accept(m.loopbackPort, "PMIx client", func(conn net.Conn, _ uint64) {
				m.server(protocolPMIx).Serve(conn, world.Proc{Rank: world.AllRanks})
			})
		})
	}
	if m.port != nil {
		m.busy.Go(func() { m.accept(m.port, "PMI client", m.servePortConn) })
	}
}

// environ is what is to be added to an environment. A variable that is there is the user's.
func (m *mpi) environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(m.vars), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	})
}

// privateDir makes a place where PMIx clients leave files.
func (m *mpi) privateDir() (string, error) {
	dir := filepath.Join(m.job.agent.cfg.TempDir, "gorun-mpi-"+rand.Text())
	<-m.job.guard.started
	root, err := m.job.guard.makeDir(dir)
	if err != nil {
		return "", fmt.Errorf("make a directory for MPI: %w; TMPDIR names one that can be written to", err)
	}
	return dir, root.Close()
}

// acceptPause is how long nobody is let in after that has failed, as for lack of descriptors.
const acceptPause = 10 * time.Millisecond

// accept serves those who come to a port. What a client says of its user is not asked: the kernel says whose its end
// is, an inode among sockets, and whoever is neither this user nor root is closed unheard.
func (m *mpi) accept(d *loopbackPort, name string, serve func(conn net.Conn, inode uint64)) {
	l, err := d.begin()
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
				m.busy.Go(func() { m.serveConn(conn, func() { serve(conn, owner.Inode) }) })
			} else {
				m.refuse(conn, name, owner, err)
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

// refuse closes a connection, and tells of the first one alone: others are no job of this one.
func (m *mpi) refuse(conn net.Conn, name string, owner peersocket.Owner, err error) {
	_ = conn.Close()
	why := fmt.Sprintf("it is user %d's, and only the user of the job and root may connect", owner.UID)
	if err != nil {
		why = fmt.Sprintf("whose it is cannot be told: %v", err)
	}
	m.refused.Do(func() { m.job.agent.notice("a %s was refused: %s", name, why) })
}

// hold has a connection served, which ends with the job; one more is refused after that.
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

// spoke is called on a spawner's thread: a rank has spoken at its socket.
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
		m.serveSession(rank, fd)
	})
}

func (m *mpi) serveSession(rank, fd int) {
	conn, err := newConn(fd, "rank's socket")
	if err != nil {
		m.job.agent.notice("rank %d cannot be served by PMI: %v", rank, err)
		return
	}
	m.serveConn(conn, func() {
		if p, ok := m.proc(rank); ok {
			m.server(protocolPMI).Serve(conn, p)
		}
	})
}

// server is that of a protocol, which knows all that has happened.
func (m *mpi) server(p protocol) mpiServer {
	m.serversMu.Lock()
	defer m.serversMu.Unlock()
	if m.servers[p] == nil {
		m.servers[p] = m.hooks.servers[p](m)
		m.introduce(m.servers[p])
		if l, ok := m.servers[p].(outputListener); ok {
			m.listener.Store(&l)
		}
	}
	return m.servers[p]
}

// printed hears what a rank has written to a stream.
func (m *mpi) printed(rank, stream int, b []byte) {
	if s := m.listener.Load(); s != nil {
		if p, ok := m.proc(rank); ok {
			(*s).Output(p, stream, b)
		}
	}
}

// suspend says that the ranks are stopped, or go on: nobody misses signs of life of stopped ones.
func (m *mpi) suspend(suspended bool) {
	if s := m.listener.Load(); s != nil {
		(*s).Suspend(suspended)
	}
}

// awake has the servers answer what other nodes ask: somewhere ranks speak MPI. This node's may not have been started.
func (m *mpi) startServers() {
	if m.cfg.Offered {
		m.server(protocolPMI)
		m.server(protocolPMIx)
	}
}

// introduce tells a new server all that has happened. The caller holds making.
func (m *mpi) introduce(s mpiServer) {
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
}

// know notes a world.
func (m *mpi) addWorld(w *world.World) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worlds[w.Name] = w
}

// proc is a rank of the job in its world.
func (m *mpi) proc(rank int) (world.Proc, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.worlds {
		if r := indexOf(w, rank); r >= 0 {
			return world.Proc{World: w.Name, Rank: r}, true
		}
	}
	return world.Proc{}, false
}

// memberOf is the place of a rank of the job in a world, -1 for none. Those of a world follow one another as a rule.
func indexOf(w *world.World, rank int) int {
	if len(w.Ranks) == 0 {
		return -1
	}
	if r := rank - w.Ranks[0].Job; r >= 0 && r < len(w.Ranks) && w.Ranks[r].Job == rank {
		return r
	}
	return slices.IndexFunc(w.Ranks, func(r world.Rank) bool { return r.Job == rank })
}

// wordsLimit is how long the last words of a rank that has ended may take: they lie in its socket by
// then, but who holds that open as well hides its end.
const sessionLimit = 100 * time.Millisecond

// afterWords does something when all that a rank which has ended said at its socket was heard: MPI_Abort
// is a word and then an exit code.
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
		limit := time.NewTimer(sessionLimit)
		defer limit.Stop()
		select {
		case <-over:
		case <-limit.C:
		}
		do()
	}()
}

// rankEnded tells the servers of a rank whose process is gone; one that is made later hears of it then. They tell other
// nodes, which want to hear of nobody before there are servers: see awake.
func (m *mpi) rankEnded(rank int) {
	if !m.cfg.Offered {
		return
	}
	m.serversMu.Lock()
	m.ended = append(m.ended, rank)
	servers := m.existingServers()
	m.serversMu.Unlock()
	if len(servers) == 0 {
		return
	}
	if p, ok := m.proc(rank); ok {
		// others, who hear of it, may not take it for one that has not begun
		if m.state(rank) != nil && m.overNodes(p.World) {
			m.job.endings.flush()
		}
		for _, s := range servers {
			s.Ended(p)
		}
	}
}

// overNodes reports whether a world has ranks on other nodes, too.
func (m *mpi) overNodes(name string) bool {
	m.mu.Lock()
	w := m.worlds[name]
	m.mu.Unlock()
	return w != nil && slices.ContainsFunc(w.Ranks, func(r world.Rank) bool { return r.Node != m.cfg.Node })
}

// knowing are the servers that there are. The caller holds making.
func (m *mpi) existingServers() []mpiServer {
	return slices.DeleteFunc(slices.Clone(m.servers[:]), func(s mpiServer) bool { return s == nil })
}

// close ends all conversations and the servers. No rank runs any more.
func (m *mpi) close() {
	close(m.over)
	m.mu.Lock()
	m.closed = true
	for conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	for _, d := range []*loopbackPort{m.loopbackPort, m.port} {
		if d != nil {
			d.close()
		}
	}
	m.serversMu.Lock()
	servers := m.existingServers()
	m.serversMu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	m.busy.Wait()
}

// forgetTalks is for ranks whose processes are gone for good.
func (m *mpi) forgetSessions(ranks []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rank := range ranks {
		delete(m.sessions, rank)
	}
}
