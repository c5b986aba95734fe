package launcher_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
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
	"gorun/launcher"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// simRanks is how many ranks each simulated node has.
const simRanks = 8

// simulation is a job whose agents are goroutines in this process: nothing is started,
// and links take a while. The head is the real one.
type simulation struct {
	delay   time.Duration // of each direction
	machine placement.Machine
	agents  []*simAgent

	began   time.Time
	heard   atomic.Int32  // agents whose ranks the head knows to run
	running chan struct{} // closed when that is all
	started time.Duration // how long that took
	over    sync.WaitGroup

	joined  chan int   // the attempt, for each agent that joined its exchange plane; nil: there is none
	dialing sync.Mutex // one agent at a time is connected over a socket
}

// simAgent is the agent of one node.
type simAgent struct {
	sim   *simulation
	index int
	down  *flight // from the head
	up    *flight
	link  *wire.Link

	stubborn time.Duration                   // how long its ranks take to end
	begins   time.Duration                   // how long it takes to begin
	refuses  func(ctx context.Context) error // nil: it is reached

	plane   atomic.Pointer[exchange.Node]
	attempt atomic.Int32 // whose plane that is

	mu     sync.Mutex
	ranks  []int // that run
	worlds []world.World
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
	a := &simAgent{sim: s, index: index, down: newFlight(s.delay), up: newFlight(s.delay)}
	a.link = wire.NewLink(linkEnd{a.down, a.up})
	a.up.taken = func() {
		if int(s.heard.Add(1)) == len(s.agents) {
			s.started = time.Since(s.began)
			close(s.running)
		}
	}
	return a
}

// reach connects the head with an agent.
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

// spec is a job over all of the nodes.
func (s *simulation) spec() launcher.Spec {
	spec := launcher.Spec{
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

func (s *simulation) run(tb testing.TB, spec launcher.Spec, options ...launcher.Option) *launcher.Result {
	s.began = time.Now()
	options = append([]launcher.Option{launcher.WithReach(s.reach), launcher.WithOutput(io.Discard, io.Discard)},
		options...)
	result, err := launcher.Run(tb.Context(), spec, options...)
	require.NoError(tb, err)
	s.over.Wait()
	return result
}

// finish has all ranks end.
func (s *simulation) finish() {
	for _, a := range s.agents {
		a.end(0)
	}
}

// serve answers the head until that is gone.
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
	case wire.TypeHello:
		return a.link.Send(a.facts())
	case wire.TypeProbe:
		var p wire.Probe
		if err := f.Decode(&p); err != nil {
			return err
		}
		return a.link.Send(a.reached(p))
	case wire.TypeOpen:
		addr := a.address().String()
		return a.link.Send(&wire.Opened{Opened: spec.Opened{Addr: addr, Port: 29500, Store: addr + ":29500"}})
	case wire.TypeStart:
		return a.start(f)
	case wire.TypePing:
		var p wire.Ping
		if err := f.Decode(&p); err != nil {
			return err
		}
		return a.link.Send(&wire.Pong{Sent: p.Sent, At: time.Now()})
	case wire.TypeSignal:
		a.asked(syscall.SIGTERM)
	case wire.TypeKill:
		a.asked(syscall.SIGKILL)
	case wire.TypeExchange:
		return a.exchange(f)
	case wire.TypeEnd:
		return a.link.Send(&wire.Gone{})
	}
	return nil
}

// facts are of a machine with eight GPUs, whose names are its own.
func (a *simAgent) facts() *wire.Facts {
	m := a.sim.machine
	m.GPUs = slices.Clone(m.GPUs)
	for i := range m.GPUs {
		m.GPUs[i].UUID = fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", a.index, i)
	}
	return &wire.Facts{
		Facts: spec.Facts{Host: fmt.Sprintf("ip-%d", a.index), Machine: m, TempDir: "/tmp", Programs: []spec.Program{{
			Path: "/home/alice/trainer", Argv: []string{"./trainer"}, ScriptArg: 1,
			Kind: "executable",
		}}, Environ: []string{"HOME=/home/alice", "USER=alice", "LOGNAME=alice", "SHELL=/bin/bash", "PATH=/usr/bin:/bin"}},
		Version: wire.Version,
	}
}

func (a *simAgent) address() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(a.index >> 16), byte(a.index >> 8), byte(a.index)})
}

// reached says that all nodes reach all others.
func (a *simAgent) reached(p wire.Probe) *wire.Reached {
	r := &wire.Reached{}
	if p.Listen {
		r.Port = 40000
		r.Candidates = []probe.Candidate{
			{Addr: a.address(), Bits: 8, Interface: "eth0", Kind: "ordinary", Mbps: 100_000},
			{Addr: netip.AddrFrom4([4]byte{172, 17, 0, 1}), Bits: 16, Interface: "docker0", Kind: "host-only"},
			{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Bits: 8, Interface: "lo", Kind: "loopback"},
		}
	}
	for i := range p.Targets {
		r.Answers = append(r.Answers, probe.Answer{
			Target: i, RTT: 2 * a.sim.delay, Local: a.address(),
			Interface: "eth0",
		})
	}
	return r
}

// start says that the ranks run.
func (a *simAgent) start(f wire.Frame) error {
	var m wire.Start
	if err := f.Decode(&m); err != nil {
		return err
	}
	running := wire.Running{At: time.Now()}
	a.mu.Lock()
	a.worlds = m.MPI.Worlds
	for _, row := range m.Ranks {
		a.ranks = append(a.ranks, row.Rank)
		running.Ranks = append(running.Ranks, wire.RankPID{Rank: row.Rank, PID: 1000 + row.LocalRank})
	}
	a.mu.Unlock()
	err := a.link.Send(&running)
	a.joinPlane(m.Attempt)
	a.up.mark()
	return err
}

// end has the ranks end, all by one signal, or well.
func (a *simAgent) end(sig syscall.Signal) {
	a.mu.Lock()
	ranks := a.ranks
	a.ranks = nil
	a.mu.Unlock()
	if len(ranks) == 0 {
		return
	}
	ended := &wire.Ended{}
	for i, rank := range ranks {
		ended.Streams = append(ended.Streams, wire.StreamEnd{Rank: rank, Stream: 1}, wire.StreamEnd{Rank: rank, Stream: 2})
		ended.Ranks = append(ended.Ranks, spec.Exit{Rank: rank, PID: 1000 + i, Signal: sig, At: time.Now()})
	}
	_ = a.link.Send(ended) // or the head is gone
}

func TestSimulatedNodes(t *testing.T) {
	nodes := testneeds.Count(200, 10_000)
	s := newSimulation(t, nodes, time.Millisecond)
	go func() {
		<-s.running
		s.finish()
	}()
	result := s.run(t, s.spec())
	assert.Zero(t, result.ExitCode, launcher.Explain(result))
	assert.Equal(t, int32(nodes), s.heard.Load())
}

// BenchmarkSimulatedNodes is the head with many agents in this process, whose links
// take a millisecond each way. KiB/agent is what head and agents hold, stacks
// included, once all ranks run; agents-KiB/agent what the agents do after a talk of the
// same length with nobody who keeps anything, so that the difference is the head's.
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
	result := s.run(b, s.spec())
	b.ReportMetric(s.started.Seconds(), "s-start")
	b.ReportMetric(time.Since(ending).Seconds(), "s-end")
	b.ReportMetric((processTime() - used).Seconds(), "s-cpu")
	assert.Zero(b, result.ExitCode, launcher.Explain(result))
}

// agentsAlone is what the agents of a job hold, in bytes.
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

// memory is what this process holds, in bytes.
func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// processTime is the CPU time of this process.
func processTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
