package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// mpi serves MPI's start-up protocols to the ranks of this node, in one attempt of the job. A job
// that uses none pays for a socket a rank and for one that listens: the servers are made when
// somebody comes to them.
type mpi struct {
	job     *running
	wish    wire.MPI
	makers  mpiMakers
	vars    []string // of ranks' environment
	dir     string   // for PMIx, made when it is asked for
	doorway *doorway // where PMIx clients come to; nil: it is not served
	port    *doorway // PMI_PORT; nil: ranks have a descriptor, or PMI is not served

	pmix pmixServer // nil: it is not served

	// making guards what follows: PMI's server, which worlds they know and those who have ended. What a server calls here never
	// takes it.
	making sync.Mutex
	pmi    pmiServer
	peopled
	ended []int // ranks of the job

	mu     sync.Mutex // guards what follows
	closed bool
	conns  map[net.Conn]bool
	talks  map[int]chan struct{}  // by rank that has spoken at its socket: closed when that has ended
	states map[int]*wire.RankMPI  // by rank
	worlds map[string]world.World // all that are known, by name
	// spoken are the protocols by which ranks have begun; mixed says that it was looked whether two of
	// them wait for each other.
	spoken speaks
	mixed  bool
	// libraries are those that ranks were seen with; warned says that one was told of.
	libraries map[int]library
	warned    bool
	busy      sync.WaitGroup // goroutines
}

// peopled says which servers know the worlds.
type peopled struct{ pmiKnows, pmixKnows bool }

// mpiServer is what PMI's and PMIx's servers have in common.
type mpiServer interface {
	Add(w *world.World)
	Ended(p world.Proc)
	Waits() []world.Wait
	Close()
}

type pmiServer interface {
	mpiServer
	Serve(conn net.Conn, p world.Proc)
}

type pmixServer interface {
	mpiServer
	URI(port int) string
	Serve(conn net.Conn)
}

// mpiMakers make the servers; a test has others.
type mpiMakers struct {
	pmi  func(m *mpi) pmiServer
	pmix func(m *mpi) pmixServer
}

func (j *running) newMPI() *mpi {
	m := &mpi{
		job: j, wish: j.start.MPI, makers: realMPI, conns: map[net.Conn]bool{}, talks: map[int]chan struct{}{}, states: map[int]*wire.RankMPI{},
		worlds: map[string]world.World{},
	}
	for _, w := range m.wish.Worlds {
		m.worlds[w.Name] = w
	}
	if m.wish.PMIx { // other nodes may ask it before this one's ranks are started
		m.pmix = m.makers.pmix(m)
	}
	return m
}

// open makes what ranks' environment tells of.
func (m *mpi) open() {
	switch {
	case m.wish.PMI && m.wish.PMIPort:
		m.openPort()
	case m.wish.PMI:
		m.vars = append(m.vars, fmt.Sprint("PMI_FD=", process.RankSocket))
	}
	if !m.wish.PMIx {
		return
	}
	m.dir = filepath.Join(m.job.agent.cfg.TempDir, "gorun-mpi-"+rand.Text())
	var err error
	if m.doorway, err = openDoorway(); err != nil {
		m.job.agent.notice("PMIx is not served, so Open MPI programs run as 0 of 1: %v", err)
		return
	}
	m.busy.Go(func() { m.accept(m.doorway, func(conn net.Conn) { m.serverPMIx().Serve(conn) }) })
	m.vars = append(m.vars, "PMIX_SERVER_URI3="+m.pmix.URI(m.doorway.port))
}

// environ is what is to be added to an environment. A variable that is there is the user's.
func (m *mpi) environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(m.vars), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	})
}

// privateDir makes the place where PMIx clients leave files. The guard knows of it before it exists.
func (m *mpi) privateDir() (string, error) {
	<-m.job.guard.began
	m.job.guard.addPath(m.dir)
	if err := os.Mkdir(m.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make a directory for MPI: %w; TMPDIR names one that can be written to", err)
	}
	return m.dir, nil
}

// acceptPause is how long nobody is let in after that has failed, as for lack of descriptors.
const acceptPause = 10 * time.Millisecond

// accept serves those who come to a port.
func (m *mpi) accept(d *doorway, serve func(net.Conn)) {
	for {
		conn, err := d.accept()
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		case m.hold(conn):
			m.busy.Go(func() {
				defer m.release(conn)
				serve(conn)
			})
		}
	}
}

// hold notes a connection that ends with the job; one more is refused after that.
func (m *mpi) hold(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = conn.Close()
		return false
	}
	m.conns[conn] = true
	return true
}

func (m *mpi) release(conn net.Conn) {
	_ = conn.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, conn)
}

// spoke is called on a spawner's thread: a rank has spoken at its socket.
func (m *mpi) spoke(rank, fd int) {
	over := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = syscall.Close(fd)
		return
	}
	m.talks[rank] = over
	m.busy.Go(func() {
		defer close(over)
		m.talk(rank, fd)
	})
}

func (m *mpi) talk(rank, fd int) {
	conn, err := connOf(fd, "rank's socket")
	if err != nil {
		m.job.agent.notice("rank %d cannot be served PMI: %v", rank, err)
		return
	}
	if p, ok := m.proc(rank); ok && m.hold(conn) {
		defer m.release(conn)
		m.serverPMI().Serve(conn, p)
	}
}

// serverPMI is PMI's server, which knows all that has happened.
func (m *mpi) serverPMI() pmiServer {
	m.making.Lock()
	defer m.making.Unlock()
	if m.pmi == nil {
		m.pmi = m.makers.pmi(m)
	}
	if !m.pmiKnows {
		m.pmiKnows = true
		m.introduce(m.pmi)
	}
	return m.pmi
}

func (m *mpi) serverPMIx() pmixServer {
	m.making.Lock()
	defer m.making.Unlock()
	if !m.pmixKnows {
		m.pmixKnows = true
		m.introduce(m.pmix)
	}
	return m.pmix
}

// awake has the servers answer what other nodes ask: somewhere ranks speak MPI.
func (m *mpi) awake() {
	if m.wish.PMI {
		m.serverPMI()
	}
	if m.pmix != nil {
		m.serverPMIx()
	}
}

func (m *mpi) introduce(s mpiServer) {
	for i := range m.wish.Worlds {
		s.Add(&m.wish.Worlds[i])
	}
	for _, rank := range m.ended {
		if p, ok := m.proc(rank); ok {
			s.Ended(p)
		}
	}
}

// proc is a rank of the job in its world.
func (m *mpi) proc(rank int) (world.Proc, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.worlds {
		for r := range w.Ranks {
			if w.Ranks[r].Job == rank {
				return world.Proc{World: w.Name, Rank: r}, true
			}
		}
	}
	return world.Proc{}, false
}

// wordsLimit is how long the last words of a rank that has ended may take: they lie in its socket by
// then, but who holds that open as well hides its end.
const wordsLimit = 100 * time.Millisecond

// afterWords does something when all that a rank which has ended said at its socket was heard: MPI_Abort
// is a word and then an exit code.
func (m *mpi) afterWords(rank int, do func()) {
	m.mu.Lock()
	over := m.talks[rank]
	m.mu.Unlock()
	if over == nil {
		do()
		return
	}
	go func() {
		limit := time.NewTimer(wordsLimit)
		defer limit.Stop()
		select {
		case <-over:
		case <-limit.C:
		}
		do()
	}()
}

// rankEnded tells the servers of a rank whose process is gone; one that is made later hears of it then.
func (m *mpi) rankEnded(rank int) {
	if !m.wish.PMI && !m.wish.PMIx {
		return
	}
	m.making.Lock()
	m.ended = append(m.ended, rank)
	hear := m.knowing()
	m.making.Unlock()
	p, ok := m.proc(rank)
	if !ok {
		return
	}
	for _, s := range hear {
		s.Ended(p)
	}
	m.job.plane.Leave(p)
}

// knowing are the servers that know the worlds. The caller holds making.
func (m *mpi) knowing() (servers []mpiServer) {
	if m.pmiKnows {
		servers = append(servers, m.pmi)
	}
	if m.pmixKnows {
		servers = append(servers, m.pmix)
	}
	return servers
}

// close ends all conversations and the servers. No rank runs any more.
func (m *mpi) close() {
	m.mu.Lock()
	m.closed = true
	for conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	for _, d := range []*doorway{m.doorway, m.port} {
		if d != nil {
			d.close()
		}
	}
	m.making.Lock()
	pmi := m.pmi
	m.making.Unlock()
	if pmi != nil {
		pmi.Close()
	}
	if m.pmix != nil {
		m.pmix.Close()
	}
	m.busy.Wait()
}
