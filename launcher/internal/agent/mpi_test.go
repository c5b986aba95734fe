package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// fakeServer records its calls and answers each line with the rank that sent it.
type fakeServer struct {
	mu    sync.Mutex
	calls []string
	waits []world.Wait
}

func (f *fakeServer) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeServer) Add(w *world.World)  { f.note("add %s", w.Name) }
func (f *fakeServer) Ended(p world.Proc)  { f.note("ended %d", p.Rank) }
func (f *fakeServer) Forget(w string)     { f.note("forget %s", w) }
func (f *fakeServer) Waits() []world.Wait { return f.waits }
func (f *fakeServer) Close()              { f.note("close") }

type fakePMI struct{ *fakeServer }

func (f fakePMI) Serve(conn net.Conn, p world.Proc) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		f.note("%d said %s", p.Rank, lines.Text())
		fmt.Fprintln(conn, p.Rank)
	}
}

type fakePMIx struct{ *fakeServer }

func (f fakePMIx) Serve(conn net.Conn, p world.Proc) { fakePMI(f).Serve(conn, p) }

func (f fakePMIx) Output(of world.Proc, stream int, b []byte) {
	f.note("%d wrote %q to %d", of.Rank, b, stream)
}

func (f fakePMIx) Suspend(suspended bool) { f.note("suspended: %v", suspended) }

// fakeMPI returns the mpi of a node with ranks 5 and 6 of the job, and its fake servers. Their world ranks are 0 and
// 1.
func fakeMPI(t *testing.T) (m *mpi, pmi, pmix *fakeServer) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	w := world.World{Name: "w", Ranks: []world.Rank{{Job: 5}, {Job: 6}}}
	j := newJob(&Agent{link: wire.NewLink(ours), cfg: Config{TempDir: t.TempDir()}},
		wire.Start{MPI: wire.MPI{Offered: true, NumRanks: 2, Worlds: []world.World{w}}})
	j.guard.skipStart()
	pmi, pmix = &fakeServer{}, &fakeServer{}
	m = j.mpi
	m.hooks = mpiHooks{
		servers: [numProtocols]func(m *mpi) mpiServer{
			protocolPMI:  func(*mpi) mpiServer { pmi.note("made"); return fakePMI{pmi} },
			protocolPMIx: func(*mpi) mpiServer { pmix.note("made"); return fakePMIx{pmix} },
		},
	}
	return m, pmi, pmix
}

// portOf returns the port number at which a protocol is served.
func portOf(m *mpi, protocol string) int {
	i := slices.IndexFunc(m.ports, func(p *mpiPort) bool { return p.protocol == protocol })
	return m.ports[i].port
}

func TestMPIServersAreMadeWhenSomebodyComes(t *testing.T) {
	m, pmi, pmix := fakeMPI(t)
	m.open()
	port := portOf(m, "PMIx")
	assert.Equal(t, []string{"PMI_FD=3", fmt.Sprint("PMIX_SERVER_URI3=gorun-node0.0;tcp4://127.0.0.1:", port)},
		m.environ(nil))
	assert.Equal(t, []string{"PMI_FD=3"}, m.environ([]string{"A=b", "PMIX_SERVER_URI3=the user's"}))
	early, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	require.NoError(t, err, "before anybody is let in")
	m.rankEnded(6)
	m.observeOutput(5, 1, []byte("nobody pulls it"))
	assert.Empty(t, pmi.calls, "nobody came")
	assert.Empty(t, pmix.calls)

	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fds[1]), "rank")
	rank, err := net.FileConn(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	m.socketReadable(5, fds[0])
	says(t, rank, "0")
	assert.Equal(t, []string{"made", "add w", "ended 1", "0 said hello"}, pmi.calls)
	require.NoError(t, rank.Close())
	over := make(chan struct{})
	m.afterSession(5, func() { close(over) })
	<-over

	m.acceptConnections()
	says(t, early, "-1")
	assert.Equal(t, []string{"made", "add w", "ended 1", "-1 said hello"}, pmix.calls)
	require.NoError(t, early.Close())
	client, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	require.NoError(t, err)
	says(t, client, "-1")
	m.rankEnded(5)
	m.observeOutput(6, 2, []byte("pulled"))
	m.observeOutput(9, 2, []byte("by no rank of a world"))
	m.addWorld(&world.World{Name: "more", Ranks: []world.Rank{{Job: 7}}})
	dir, err := m.privateDir()
	require.NoError(t, err)
	assert.DirExists(t, dir)
	m.close()
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "it was closed with the job")
	assert.Equal(t, []string{"ended 0", "add more", "close"}, pmi.calls[4:])
	assert.Equal(t, []string{"ended 0", `1 wrote "pulled" to 2`, "add more", "close"}, pmix.calls[5:])
	m.job.guard.dismiss()
	assert.NoDirExists(t, dir)
}

// says sends a client's greeting and requires an answer.
func says(t *testing.T, conn net.Conn, answer string) {
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	got, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, answer, strings.TrimSpace(got))
}

// With a port, ranks have no descriptor. A client at the port must be a rank's process or its descendant.
func TestPMIPort(t *testing.T) {
	m, pmi, _ := fakeMPI(t)
	m.cfg.PMIPort = true
	m.open()
	address := fmt.Sprint("127.0.0.1:", portOf(m, "PMI"))
	pmix := fmt.Sprint("PMIX_SERVER_URI3=gorun-node0.0;tcp4://127.0.0.1:", portOf(m, "PMIx"))
	assert.Equal(t, []string{"PMI_PORT=" + address, pmix}, m.environ(nil))
	assert.Equal(t, []string{pmix}, m.environ([]string{"PMI_PORT=mine"}))

	unknown := exec.Command("sleep", "100")
	require.NoError(t, unknown.Start())
	defer func() { _, _ = unknown.Process.Kill(), unknown.Wait() }()
	self, other := &rank{}, &rank{}
	self.pid.Store(int32(os.Getpid()))
	other.pid.Store(int32(unknown.Process.Pid))
	m.job.roster.Store(&roster{ranks: map[int]*rank{5: self, 6: other}})
	claims := make(chan [2]any)
	m.hooks.servers[protocolPMI] = func(*mpi) mpiServer { return claimingPMI{fakePMI{pmi}, m, claims} }
	m.acceptConnections()
	for id, want := range map[int]any{
		5: world.Proc{World: "w", Rank: 0},
		6: fmt.Sprintf("it claims rank 6, whose process (pid %d) did not start it", unknown.Process.Pid),
		7: "it claims rank 7, which is not on this node",
	} {
		client, err := net.Dial("tcp", address)
		require.NoError(t, err)
		fmt.Fprintln(client, id)
		got := <-claims
		if p, ok := want.(world.Proc); ok {
			assert.Equal(t, [2]any{p, nil}, got)
			require.NotNil(t, m.sessions[id], "the rank's last words are waited for")
		} else {
			assert.EqualError(t, got[1].(error), want.(string))
			assert.Nil(t, m.sessions[id])
		}
		require.NoError(t, client.Close())
	}
	over := make(chan struct{})
	m.afterSession(5, func() { close(over) })
	<-over
	m.close()
	_, err := net.Dial("tcp", address)
	assert.Error(t, err)
}

// claimingPMI determines which process a client is from the rank number that it sends.
type claimingPMI struct {
	fakePMI
	m      *mpi
	claims chan [2]any
}

func (f claimingPMI) Serve(conn net.Conn, p world.Proc) {
	var id int
	if _, err := fmt.Fscanln(conn, &id); err != nil || p != (world.Proc{Rank: world.AllRanks}) {
		f.note("%v %v", p, err)
		return
	}
	p, err := f.m.claim(conn, id)
	if err != nil {
		f.claims <- [2]any{p, err}
		return
	}
	f.claims <- [2]any{p, nil}
}

func TestMPIAfterItsEnd(t *testing.T) {
	m, pmi, _ := fakeMPI(t)
	m.open()
	m.close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[1])
	m.socketReadable(5, fds[0])
	assert.ErrorIs(t, unix.Close(fds[0]), syscall.EBADF, "it was closed")
	_, err = net.Dial("tcp", fmt.Sprint("127.0.0.1:", portOf(m, "PMIx")))
	assert.Error(t, err)
	assert.Empty(t, pmi.calls)
}

func TestMPIStates(t *testing.T) {
	m, _, _ := fakeMPI(t)
	first, second := world.Proc{World: "w", Rank: 0}, world.Proc{World: "w", Rank: 1}
	assert.False(t, m.anyBegan())
	m.Began(first, "PMI-2")
	m.Began(second, "PMIx 4.2.2")
	m.Finalized(second)
	m.Left(first)
	assert.Equal(t, &spec.RankMPI{Protocol: "PMI-2"}, m.state(5))
	assert.Equal(t, &spec.RankMPI{Protocol: "PMIx 4.2.2", Finalized: true}, m.state(6))
	m.Began(second, "PMI-1") // by another program of the same rank
	assert.Equal(t, &spec.RankMPI{Protocol: "PMI-1"}, m.state(6))
	assert.Nil(t, m.state(7))
	assert.Equal(t, -1, m.rank(world.Proc{World: "w", Rank: 2}))
	assert.Equal(t, -1, m.rank(world.Proc{World: "other"}))
	assert.Equal(t, -1, m.rank(world.Proc{World: "w", Rank: world.AllRanks}))
}

func TestWaitsInMPI(t *testing.T) {
	m, pmi, _ := fakeMPI(t)
	first, second := world.Proc{World: "w", Rank: 0}, world.Proc{World: "w", Rank: 1}
	pmi.waits = []world.Wait{{Waiting: []world.Proc{first}, For: []world.Proc{second}}}
	assert.Empty(t, m.waits(), "no rank has come to a server")
	m.server(protocolPMI)
	m.job.roster.Store(&roster{ranks: map[int]*rank{5: {}, 6: {}}})
	assert.Equal(t, map[int]*spec.MPIWait{5: {For: []int{6}, Init: true}}, m.waits())
	m.Began(second, "PMI-1")
	assert.Equal(t, map[int]*spec.MPIWait{5: {For: []int{6}}}, m.waits())
	pmi.waits = []world.Wait{{Waiting: []world.Proc{first, second}}}
	assert.Equal(t, map[int]*spec.MPIWait{5: {}, 6: {}}, m.waits())
	pmi.waits = []world.Wait{{Waiting: []world.Proc{first}, Spawns: true}}
	assert.Equal(t, map[int]*spec.MPIWait{5: {Spawns: true}}, m.waits())
}

// Ranks of two PMI families that wait for each other can never initialize MPI.
func TestFamiliesThatWaitForEachOther(t *testing.T) {
	m, pmi, pmix := fakeMPI(t)
	ours, theirs := net.Pipe()
	m.job.agent.link = wire.NewLink(ours)
	m.job.roster.Store(&roster{ranks: map[int]*rank{5: {}, 6: {}}})
	m.startServers()
	first, second := world.Proc{World: "w", Rank: 0}, world.Proc{World: "w", Rank: 1}
	m.Began(first, "PMI-1")
	assert.False(t, m.mixtureReported)
	m.Began(second, "PMIx 4.2.2")
	assert.True(t, m.mixtureReported)
	defer m.job.timers.stop()
	pmi.waits = []world.Wait{{Waiting: []world.Proc{first}, For: []world.Proc{second}}}
	go func() {
		m.reportMixture() // no notice: the other rank goes on
		pmix.waits = []world.Wait{{Waiting: []world.Proc{second}, For: []world.Proc{first}}}
		m.reportMixture()
		ours.Close()
	}()
	frame, err := wire.NewReader(theirs).Read()
	require.NoError(t, err)
	var e wire.MPIEvent
	require.NoError(t, frame.Decode(&e))
	require.NotNil(t, e.Stuck)
	assert.Equal(t, 6, e.Stuck.Missing)
	assert.Equal(t, []int{5}, e.Stuck.Waiting)
	assert.Contains(t, e.Stuck.Why,
		"rank 5 uses MPICH or a relative (PMI-1), rank 6 uses Open MPI (PMIx 4.2.2)")
	rest, err := io.ReadAll(theirs)
	require.NoError(t, err)
	assert.Empty(t, rest)
}

func TestSingletonsAreReportedOnce(t *testing.T) {
	for _, c := range []struct {
		library string
		change  func(*wire.MPI)
		want    string
	}{
		{"libmpi.so.40.30.4", func(w *wire.MPI) {
			*w = wire.MPI{Why: "leave out --mpi=none"}
		}, "(Open MPI) and has not asked gorun for its rank; if it has called MPI_Init, it runs as rank 0 of 1: " +
			"gorun does not serve MPI in this job: leave out --mpi=none"},
		{"libmpi.so.40.30.4", func(*wire.MPI) {}, "Open MPI 4 and later may still call MPI_Init"},
		{"libmpich.so.12.2.2", func(w *wire.MPI) { w.Only = "PMI-2" }, "`--mpi` limits gorun to PMI-2: leave it out"},
		{"libmpi.so.12", func(*wire.MPI) {}, "built for another launcher"},
		{"libmpi_cray.so.12", func(*wire.MPI) {}, "(Cray MPICH)"},
		{"libmpi_ibm.so.3", func(*wire.MPI) {}, "start this program by its own mpiexec"},
	} {
		ours, theirs := net.Pipe()
		m, _, _ := fakeMPI(t)
		c.change(&m.cfg)
		m.job.agent.link = wire.NewLink(ours)
		m.noteLibrary(5, library{name: c.library})
		go func() {
			m.warnSingleton(6)
			m.warnSingleton(5)
			m.warnSingleton(5)
			ours.Close()
		}()
		frame, err := wire.NewReader(theirs).Read()
		require.NoError(t, err)
		var n wire.Notice
		require.NoError(t, frame.Decode(&n))
		assert.Contains(t, n.Text, "rank 5 has loaded "+c.library)
		assert.Contains(t, n.Text, c.want)
		rest, err := io.ReadAll(theirs)
		require.NoError(t, err)
		assert.Empty(t, rest)
	}
	m, _, _ := fakeMPI(t)
	m.job.agent.link = nil
	m.Began(world.Proc{World: "w", Rank: 1}, "PMI-1")
	m.noteLibrary(5, library{name: "libmpi.so.12"})
	m.warnSingleton(5) // no notice: the job uses MPI
}

// A program that imports mpi4py may call MPI_Init later. No notice is due for a while.
func TestSingletonsHaveTimeToBegin(t *testing.T) {
	assert.GreaterOrEqual(t, mpiCheckTimes[len(mpiCheckTimes)-1], 30*time.Second)
}

func TestMPILibraryOfAProcess(t *testing.T) {
	assert.Empty(t, mpiLibrary(os.Getpid()))
}

// Other nodes get a rank's departure once, after all servers have finished with that rank.
func TestOtherNodesLearnOnceOfExits(t *testing.T) {
	m, _, _ := fakeMPI(t)
	var said []*exchange.Message
	m.job.plane = exchange.NewNode(0, func(e *exchange.Message) error { said = append(said, e); return nil })
	m.startServers()
	m.job.plane.Receive(&exchange.Message{Kind: exchange.Watch})
	m.rankEnded(6)
	assert.Empty(t, said, "the servers have not said that they have received all")
	second := world.Proc{World: "w", Rank: 1}
	m.exited(second)
	assert.Empty(t, said, "the other one may have words of it")
	m.exited(second)
	assert.Equal(t, []*exchange.Message{{Kind: exchange.Exited, Members: []world.Proc{second}}}, said)
}

// Worlds are added while other threads report the ranks' state.
func TestWorldsComeAtAnyTime(t *testing.T) {
	m, _, _ := fakeMPI(t)
	m.startServers()
	var both sync.WaitGroup
	both.Go(func() {
		for i := range 100 {
			m.addWorld(&world.World{Name: fmt.Sprint("world ", i), Ranks: []world.Rank{{Job: 8 + 2*i}, {Job: 7 + 2*i}}})
		}
	})
	both.Go(func() {
		for range 100 {
			assert.NotEmpty(t, m.remedy("libmpi.so.40"))
		}
	})
	both.Wait()
	p, ok := m.proc(8)
	assert.True(t, ok)
	assert.Equal(t, world.Proc{World: "world 0", Rank: 0}, p)
	p, _ = m.proc(206)
	assert.Equal(t, world.Proc{World: "world 99", Rank: 0}, p)
	_, ok = m.proc(207)
	assert.False(t, ok)
}

// A job whose ranks do not use MPI is not checked for ranks that wait in MPI_Init.
func TestMPIWaitsAreWatchedFromTheFirstRankOn(t *testing.T) {
	m, _, _ := fakeMPI(t)
	m.job.start.StoreReport = time.Hour
	watched := func() bool {
		m.job.timers.mu.Lock()
		defer m.job.timers.mu.Unlock()
		return len(m.job.timers.pending) == 1 && m.job.timers.last == 3
	}
	assert.False(t, watched())
	m.Began(world.Proc{World: "w"}, "PMI-1")
	assert.Eventually(t, watched, time.Minute, time.Millisecond)
	m.job.timers.stop()
}

// Notices distinguish a protocol violation from a rank that runs a second MPI program.
func TestBrokenConversations(t *testing.T) {
	for want, err := range map[string]error{
		"rank 6 broke the MPI launch protocol, so gorun stops serving it: garbage": errors.New("garbage"),
		"gorun stops serving PMI to rank 6, since both of its processes would wait for ever: process 8 calls MPI_Init " +
			"while process 7 of the same rank is in MPI": fmt.Errorf("PMI: %w", &world.SecondError{PID: 8, First: 7}),
	} {
		ours, theirs := net.Pipe()
		m, _, _ := fakeMPI(t)
		m.job.agent.link = wire.NewLink(ours)
		go m.Broken(world.Proc{World: "w", Rank: 1}, err)
		frame, failed := wire.NewReader(theirs).Read()
		require.NoError(t, failed)
		var n wire.Notice
		require.NoError(t, frame.Decode(&n))
		assert.Contains(t, strings.Replace(n.Text, "PMI: process", "process", 1), want)
		require.NoError(t, theirs.Close())
	}
}
