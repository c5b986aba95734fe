package agent

import (
	"crypto/rand"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

// mpi serves MPI's start-up protocols to this node's ranks, in one attempt of the job. A job that does not use MPI pays
// for a socket per rank and a listening one: servers are created when the first client connects.
//
// newMPI and open set the fields of the first group, before a rank is started. All methods are safe for concurrent use.
type mpi struct {
	job   *job
	cfg   wire.MPI // without worlds
	hooks mpiHooks
	vars  []string   // added to the ranks' environment
	ports []*mpiPort // of PMIx, and of PMI with PMIPort

	over    chan struct{}  // closed by close
	busy    sync.WaitGroup // goroutines
	refused sync.Once      // reports the first refused client

	mpiServers
	mpiState

	// hwloc's XML description of this machine, and the path of a file with it. Both are created on first use.
	topology, topologyFile func() (string, error)
}

// mpiServers are the servers by protocol. A server's call into mpi must not take serversMu.
type mpiServers struct {
	serversMu sync.Mutex // guards servers and ended
	servers   [numProtocols]mpiServer
	ended     []int // ranks of the job

	observer atomic.Pointer[outputObserver] // read by spawner threads
}

// mpiState is what is known of the ranks and their connections.
type mpiState struct {
	mu       sync.Mutex // guards all below
	closed   bool
	conns    map[net.Conn]bool
	sessions map[int]chan struct{}   // by rank; closed when all that the rank sent was served
	worlds   map[string]*world.World // by name; immutable
	states   map[int]*spec.RankMPI   // by rank; missing: it has not called MPI_Init

	numServers int                // that were created
	leftCount  map[world.Proc]int // servers for which the rank has exited

	protocols       protocolsSeen
	mixtureReported bool

	libraries        map[int]library // seen in ranks
	singletonWarned  bool
	firstLibraryFile string // MPI library of the first rank that called MPI_Init
}

// protocol is a start-up protocol of MPI.
type protocol int

const (
	protocolPMI protocol = iota // PMI-1 and PMI-2
	protocolPMIx
	numProtocols = iota
)

// mpiServer is the server of a protocol.
type mpiServer interface {
	// Serve serves a connection until it ends. p is the rank at the other end; p.Rank is world.AllRanks if unknown.
	Serve(conn net.Conn, p world.Proc)
	Add(w *world.World)
	Ended(p world.Proc)
	Forget(world string)
	Waits() []world.Wait
	Close()
}

// outputObserver is a server that observes the ranks' output.
type outputObserver interface {
	Output(of world.Proc, stream int, b []byte)
	Suspend(suspended bool)
}

// mpiHooks create the servers and inspect processes; tests replace them.
type mpiHooks struct {
	servers [numProtocols]func(m *mpi) mpiServer
	mapped  func(pid int, dir string, prefixes ...string) []string // process.MappedIn
}

func (j *job) newMPI() *mpi {
	m := &mpi{job: j, cfg: j.start.MPI, hooks: defaultMPIHooks, over: make(chan struct{})}
	m.conns, m.sessions, m.states = map[net.Conn]bool{}, map[int]chan struct{}{}, map[int]*spec.RankMPI{}
	m.worlds, m.leftCount, m.libraries = map[string]*world.World{}, map[world.Proc]int{}, map[int]library{}
	m.topology = sync.OnceValues(hwlocTopology)
	m.topologyFile = sync.OnceValues(m.writeTopology)
	m.cfg.Worlds = nil
	for i := range j.start.MPI.Worlds {
		w := &j.start.MPI.Worlds[i]
		m.worlds[w.Name] = w
	}
	return m
}

// open opens what the ranks' environment refers to.
func (m *mpi) open() {
	switch {
	case !m.cfg.Offered:
		return
	case m.cfg.PMIPort:
		if port := m.openPort("PMI", "MPICH's family", m.servePMIPort); port != 0 {
			m.vars = append(m.vars, fmt.Sprint("PMI_PORT=127.0.0.1:", port))
		}
	default:
		m.vars = append(m.vars, fmt.Sprint("PMI_FD=", process.RankSocket))
	}
	if port := m.openPort("PMIx", "Open MPI", m.servePMIx); port != 0 {
		m.vars = append(m.vars, "PMIX_SERVER_URI3="+pmix.URI(m.cfg.Node, port))
	}
}

// environ returns what to add to an environment. It does not override the user's variables.
func (m *mpi) environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(m.vars), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	})
}

// privateDir makes a directory for files of MPI clients.
func (m *mpi) privateDir() (string, error) {
	dir := filepath.Join(m.job.agent.cfg.TempDir, "gorun-mpi-"+rand.Text())
	<-m.job.guard.started
	root, err := m.job.guard.makeDir(dir)
	if err != nil {
		return "", fmt.Errorf("make a directory for MPI: %w; set TMPDIR to a writable directory", err)
	}
	return dir, root.Close()
}

// addWorld adds a world to all servers, including later ones.
func (m *mpi) addWorld(w *world.World) {
	m.serversMu.Lock()
	defer m.serversMu.Unlock()
	m.mu.Lock()
	m.worlds[w.Name] = w
	m.mu.Unlock()
	for _, s := range m.existingServers() {
		s.Add(w)
	}
}

// numWorlds returns the number of known worlds.
func (m *mpi) numWorlds() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.worlds)
}

// proc returns a rank of the job as a member of its world.
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

// indexOf returns the index of a rank of the job in a world; -1: none. A world's ranks are usually consecutive.
func indexOf(w *world.World, rank int) int {
	if len(w.Ranks) == 0 {
		return -1
	}
	if r := rank - w.Ranks[0].Job; r >= 0 && r < len(w.Ranks) && w.Ranks[r].Job == rank {
		return r
	}
	return slices.IndexFunc(w.Ranks, func(r world.Rank) bool { return r.Job == rank })
}

// spansNodes reports whether a world has ranks on other nodes, too.
func (m *mpi) spansNodes(name string) bool {
	m.mu.Lock()
	w := m.worlds[name]
	m.mu.Unlock()
	return w != nil && slices.ContainsFunc(w.Ranks, func(r world.Rank) bool { return r.Node != m.cfg.Node })
}

// rankEnded notifies the servers, including later ones, that a rank's process has exited. They notify other nodes,
// so no server is created just for that, see startServers.
func (m *mpi) rankEnded(rank int) {
	if !m.cfg.Offered {
		return
	}
	m.serversMu.Lock()
	m.ended = append(m.ended, rank)
	servers := m.existingServers()
	m.serversMu.Unlock()
	if p, ok := m.proc(rank); ok && len(servers) > 0 {
		// before other nodes are notified, lest the head take it for a rank that has not called MPI_Init
		if m.state(rank) != nil && m.spansNodes(p.World) {
			m.job.endings.flush()
		}
		for _, s := range servers {
			s.Ended(p)
		}
	}
}

// observeOutput passes a rank's output to the observer.
func (m *mpi) observeOutput(rank, stream int, b []byte) {
	if s := m.observer.Load(); s != nil {
		if p, ok := m.proc(rank); ok {
			(*s).Output(p, stream, b)
		}
	}
}

// suspend notifies the observer that the ranks are stopped, and send no heartbeats, or continue.
func (m *mpi) suspend(suspended bool) {
	if s := m.observer.Load(); s != nil {
		(*s).Suspend(suspended)
	}
}

// close ends all connections and servers. No rank runs any more.
func (m *mpi) close() {
	close(m.over)
	m.mu.Lock()
	m.closed = true
	for conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	for _, p := range m.ports {
		p.close()
	}
	m.serversMu.Lock()
	servers := m.existingServers()
	m.serversMu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	m.busy.Wait()
}
