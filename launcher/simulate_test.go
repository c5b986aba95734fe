package launcher

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// simRanks is the number of ranks of each simulated node.
const simRanks = 8

// simulation is a job with the real launcher and agents that are goroutines of this process. It starts no process,
// and its links have a delay.
type simulation struct {
	delay   time.Duration // of each direction
	machine placement.Machine
	agents  []*simAgent

	began    time.Time
	received atomic.Int32  // agents whose ranks the launcher knows to run
	running  chan struct{} // closed when all agents are among them
	started  time.Duration // time until then
	over     sync.WaitGroup

	joined  chan int   // the attempt, for each agent that joined its exchange plane; nil without a plane
	dialing sync.Mutex // only one agent connects over a socket at a time
}

// simAgent is the agent of one node.
type simAgent struct {
	madeUp
	sim  *simulation
	down *flight // from the launcher
	up   *flight

	stubborn time.Duration                   // time that its ranks take to end
	begins   time.Duration                   // time that it takes to start
	refuses  func(ctx context.Context) error // nil: it is reachable
	lostAt   wire.Type                       // its link ends in place of an answer to such a frame; 0: to none

	plane   atomic.Pointer[exchange.Node]
	attempt atomic.Int32 // attempt of the plane
	worlds  []world.World
}

func newSimulation(tb testing.TB, nodes int, delay time.Duration) *simulation {
	machine, err := placement.Example("dgx-h100")
	require.NoError(tb, err)
	s := &simulation{delay: delay, machine: machine, running: make(chan struct{}), agents: make([]*simAgent, nodes)}
	for i := range s.agents {
		s.agents[i] = s.agent(i)
	}
	return s
}

func (s *simulation) agent(index int) *simAgent {
	a := &simAgent{sim: s, down: newFlight(s.delay), up: newFlight(s.delay)}
	a.madeUp = madeUp{
		link: wire.NewLink(linkEnd{a.down, a.up}), index: index, program: "trainer", machine: s.machine, away: 2 * s.delay,
	}
	a.up.taken = func() {
		if int(s.received.Add(1)) == len(s.agents) {
			s.started = time.Since(s.began)
			close(s.running)
		}
	}
	return a
}

// reach connects the launcher with an agent.
func (s *simulation) reach(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
	index, err := strconv.Atoi(strings.TrimPrefix(h.Name, "node"))
	if err != nil {
		return nil, err
	}
	a := s.agents[index]
	if a.refuses != nil {
		return nil, a.refuses(ctx)
	}
	s.over.Go(a.serve)
	return linkEnd{a.up, a.down}, nil
}

// spec returns a job on all nodes.
func (s *simulation) spec() Spec {
	spec := Spec{
		Apps: []job.App{{Program: "./trainer"}}, PerNode: job.Count{Kind: job.CountFixed, N: simRanks},
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/alice", "TMPDIR=/tmp"},
	}
	for i := range 50 { // as many as a cluster's module system sets
		spec.Environ = append(spec.Environ, fmt.Sprintf("NCCL_OPTION_%d=value", i), fmt.Sprintf("OTHER_%d=value", i))
	}
	for i := range s.agents {
		spec.Hosts = append(spec.Hosts, hosts.Host{Name: fmt.Sprintf("node%d", i), Slots: simRanks})
	}
	return spec
}

func (s *simulation) run(tb testing.TB, spec Spec, o Options) *Result {
	s.began = time.Now()
	if o.Stdout, o.Stderr = io.Discard, io.Discard; o.reacher == nil {
		o.reacher = Reach(s.reach)
	}
	result, err := Run(tb.Context(), spec, o)
	require.NoError(tb, err)
	s.over.Wait()
	return result
}

// finish makes all ranks end.
func (s *simulation) finish() {
	for _, a := range s.agents {
		_ = a.end(0)
	}
}

// serve answers the launcher until the connection ends.
func (a *simAgent) serve() {
	defer a.link.Close()
	<-time.After(a.begins)
	for {
		f, err := a.link.Read()
		if err == nil {
			err = a.answer(f)
		}
		if err != nil {
			return
		}
	}
}

func (a *simAgent) answer(f wire.Frame) error {
	switch f.Type {
	case a.lostAt:
		return io.EOF
	case wire.TypeStart:
		return a.start(f)
	case wire.TypeSignal:
		a.asked(syscall.SIGTERM)
	case wire.TypeKill:
		a.asked(syscall.SIGKILL)
	case wire.TypeExchange:
		return a.exchange(f)
	case wire.TypeCleanup:
		return a.link.Send(&wire.CleanedUp{})
	}
	_, err := a.reply(f)
	return err
}

// start reports that the ranks run.
func (a *simAgent) start(f wire.Frame) error {
	var m wire.Start
	if err := f.Decode(&m); err != nil {
		return err
	}
	a.worlds = m.MPI.Worlds
	err := a.run(m.Ranks)
	a.joinPlane(m.Attempt)
	a.up.mark()
	return err
}

func TestSimulatedNodes(t *testing.T) {
	nodes := testneeds.Count(200, 10_000)
	s := newSimulation(t, nodes, time.Millisecond)
	go func() {
		<-s.running
		s.finish()
	}()
	result := s.run(t, s.spec(), Options{})
	assert.Zero(t, result.ExitCode, Explain(result))
	assert.Equal(t, int32(nodes), s.received.Load())
}

// BenchmarkSimulatedNodes measures the launcher with many agents in this process, over links with a delay of 1 ms
// each way. KiB/agent is the memory of launcher and agents once all ranks run, including stacks. agents-KiB/agent is
// the memory of the agents alone after the same exchange; the difference is the launcher's.
func BenchmarkSimulatedNodes(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			for b.Loop() {
				benchmarkNodes(b, nodes)
			}
		})
	}
}

func benchmarkNodes(b *testing.B, nodes int) {
	perAgent := func(bytes uint64) float64 { return float64(bytes) / 1024 / float64(nodes) }
	b.ReportMetric(perAgent(agentsAlone(b, nodes)), "agents-KiB/agent")
	before := memory()
	s := newSimulation(b, nodes, time.Millisecond)
	var ending time.Time
	go func() {
		<-s.running
		b.ReportMetric(perAgent(memory()-before), "KiB/agent")
		used, since := processTime(), time.Now()
		<-time.After(2 * job.DefaultHeartbeat)
		b.ReportMetric(100*float64(processTime()-used)/float64(time.Since(since)), "%core-idle")
		ending = time.Now()
		s.finish()
	}()
	used := processTime()
	result := s.run(b, s.spec(), Options{})
	b.ReportMetric(s.started.Seconds(), "s-start")
	b.ReportMetric(time.Since(ending).Seconds(), "s-end")
	b.ReportMetric((processTime() - used).Seconds(), "s-cpu")
	assert.Zero(b, result.ExitCode, Explain(result))
}

// agentsAlone returns the memory of a job's agents in bytes.
func agentsAlone(b *testing.B, nodes int) uint64 {
	before := memory()
	s := newSimulation(b, nodes, time.Millisecond)
	start := &wire.Start{Common: s.spec().Environ, Ranks: make([]wire.Row, simRanks)}
	links := make([]*wire.Link, nodes)
	var talks sync.WaitGroup
	for i, a := range s.agents {
		talks.Go(func() {
			stream, _ := s.reach(b.Context(), hosts.Host{Name: fmt.Sprintf("node%d", i)})
			links[i] = wire.NewLink(stream)
			for _, m := range []wire.Message{&wire.Hello{}, &wire.Probe{Listen: true}, start} {
				_ = links[i].Send(m)
				_, _ = links[i].Read()
			}
			links[i].Reader = nil
			a.up.ready = nil
		})
	}
	talks.Wait()
	held := memory() - before
	for _, link := range links {
		_ = link.Close()
	}
	s.over.Wait()
	return held
}

// memory returns the memory of this process in bytes.
func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// processTime returns the CPU time of this process.
func processTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
