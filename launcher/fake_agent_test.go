package launcher

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/rendezvous/world"
)

// moment is the time at which a hostile agent attacks.
type moment int

const (
	atConnect moment = iota // before the first request
	atHello                 // instead of sending its facts
	atStart                 // when its ranks run
	atGone                  // when its ranks have ended and others run
	never
)

var momentNames = [...]string{"connected", "asked", "started", "gone"}

// madeUp answers for a node in agents that exist only in tests.
type madeUp struct {
	link    *wire.Link
	index   int
	program string
	machine placement.Machine
	at      netip.Addr    // the node's address; if invalid, one is made up
	away    time.Duration // round-trip time to other nodes

	mu    sync.Mutex
	ranks []int // running ranks
}

// reply answers pings and all requests that come before ranks run. It returns false for any other frame.
func (m *madeUp) reply(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypeHello:
		return true, m.link.Send(m.facts())
	case wire.TypeProbe:
		var p wire.Probe
		_ = f.Decode(&p)
		return true, m.link.Send(m.reached(p))
	case wire.TypeOpen:
		addr := m.address().String()
		return true, m.link.Send(&wire.Opened{Opened: spec.Opened{Addr: addr, Port: 29500, Store: addr + ":29500"}})
	case wire.TypePing:
		var p wire.Ping
		_ = f.Decode(&p)
		return true, m.link.Send(&wire.Pong{Sent: p.Sent, At: time.Now()})
	}
	return false, nil
}

// facts returns the machine's facts, with GPU names unique to the node.
func (m *madeUp) facts() *wire.Facts {
	machine := m.machine
	machine.GPUs = slices.Clone(machine.GPUs)
	for i := range machine.GPUs {
		machine.GPUs[i].UUID = fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", m.index, i)
	}
	return &wire.Facts{
		Facts: spec.Facts{
			Host: fmt.Sprintf("ip-%d", m.index), TempDir: "/tmp", Boot: fmt.Sprint(m.index), Machine: machine,
			Programs: []spec.Program{{
				Path: "/home/alice/" + m.program, Argv: []string{m.program}, ScriptArg: 1, Kind: "executable",
			}},
			Environ: []string{"HOME=/home/alice", "USER=alice", "LOGNAME=alice", "SHELL=/bin/bash", "PATH=/usr/bin:/bin"},
		},
		Version: wire.Version,
	}
}

func (m *madeUp) address() netip.Addr {
	if m.at.IsValid() {
		return m.at
	}
	return netip.AddrFrom4([4]byte{10, byte(m.index >> 16), byte(m.index >> 8), byte(m.index)})
}

// reached reports that every node reaches every other node.
func (m *madeUp) reached(p wire.Probe) *wire.Reached {
	r := &wire.Reached{}
	if p.Listen {
		r.Port = 40000
		r.Candidates = []probe.Candidate{
			{Addr: m.address(), Bits: 8, Interface: "eth0", Kind: "ordinary", Mbps: 100_000},
			{Addr: netip.AddrFrom4([4]byte{172, 17, 0, 1}), Bits: 16, Interface: "docker0", Kind: "host-only"},
		}
	}
	for i := range p.Targets {
		r.Answers = append(r.Answers, probe.Result{Target: i, RTT: m.away, Local: m.address(), Interface: "eth0"})
	}
	return r
}

// run reports that ranks run.
func (m *madeUp) run(rows []wire.Row) error {
	running := wire.Running{At: time.Now()}
	m.mu.Lock()
	for _, row := range rows {
		m.ranks = append(m.ranks, row.Rank)
		running.Ranks = append(running.Ranks, wire.RankPID{Rank: row.Rank, PID: 1000 + row.LocalRank})
	}
	m.mu.Unlock()
	return m.link.Send(&running)
}

// end reports the end of the ranks, by a signal or by exit code 0.
func (m *madeUp) end(sig syscall.Signal) error {
	m.mu.Lock()
	ranks := m.ranks
	m.ranks = nil
	m.mu.Unlock()
	if len(ranks) == 0 {
		return nil
	}
	ended := &wire.Ended{}
	for i, rank := range ranks {
		ended.Streams = append(ended.Streams, wire.StreamEnd{Rank: rank, Stream: 1}, wire.StreamEnd{Rank: rank, Stream: 2})
		ended.Ranks = append(ended.Ranks, spec.Exit{Rank: rank, PID: 1000 + i, Signal: sig, At: time.Now()})
	}
	return m.link.Send(ended)
}

// fakeAgent acts as a correct agent of a node until it attacks.
type fakeAgent struct {
	madeUp
	stream io.ReadWriteCloser
	attack moment
	send   []byte // bytes of the attack
	// spawns returns the spawn request of a rank that runs; nil: no request.
	spawns func(s *wire.Start) world.Spawn
	// floods is sent repeatedly instead of the attack.
	floods   []byte
	sent     int // bytes of floods sent so far
	job      *fakeJob
	answered func() // called when a spawn was answered; may be nil

	received map[wire.Type]int // frames received, by type; guarded by mu
	spawned  *wire.Spawned     // the answer to the spawn request
	grown    int               // number of spawned ranks that it started
}

// sleeper returns a node whose program sleeps.
func sleeper(link *wire.Link, index int) madeUp {
	return madeUp{
		link: link, index: index, program: "sleep", away: time.Millisecond,
		machine: placement.Machine{CPUs: placement.CPUSetOf([]uint64{0xf})},
	}
}

// fakeJob has a real launcher and fake agents. The last agent is hostile.
type fakeJob struct {
	session *session
	agents  []*fakeAgent
	serving sync.WaitGroup
	over    sync.Once
	ended   chan struct{} // closed when the hostile agent has finished its attack, or was lost
}

func newFakeJob(t testing.TB, kind wire.Peer, mpi job.MPIMode) *fakeJob {
	t.Helper()
	j := &fakeJob{ended: make(chan struct{})}
	s := newSession(Spec{}, Options{Stdout: io.Discard, Stderr: io.Discard})
	s.spec = Spec{
		Apps: []job.App{{Program: "/home/alice/sleep"}}, PerNode: job.Count{Kind: job.CountFixed, N: 1}, MPI: mpi,
		Grace:   time.Second,
		Environ: []string{"PATH=/usr/bin:/bin", "HOME=/home/alice", "TMPDIR=/tmp"},
		Output:  job.OutputSpec{LogDir: "/dev/null"},
	}
	for i := range 3 {
		n := &node{index: i, host: hosts.Host{Name: fmt.Sprintf("node%d", i), Slots: 1}, name: fmt.Sprintf("node%d", i)}
		n.notify = func(string) {}
		head, far := net2()
		n.link, n.kind = wire.NewLink(reach.Queued(head)), wire.PeerSSH
		a := &fakeAgent{
			madeUp: sleeper(wire.NewLink(far), i), stream: far, attack: never, job: j, received: map[wire.Type]int{},
		}
		if i == 2 {
			n.kind = kind
			n.joined = kind == wire.PeerJoined || kind == wire.PeerUnauthenticated
		}
		n.link.Guard(n.kind)
		s.spec.Hosts = append(s.spec.Hosts, n.host)
		s.nodes = append(s.nodes, n)
		j.agents = append(j.agents, a)
	}
	j.session = s
	return j
}

// duplex is one end of a pair of pipes.
type duplex struct {
	io.Reader
	io.Writer
	close func()
}

func (d duplex) Close() error { d.close(); return nil }

func net2() (near, far io.ReadWriteCloser) {
	downR, downW := io.Pipe()
	upR, upW := io.Pipe()
	closeAll := func() {
		for _, c := range []io.Closer{downR, downW, upR, upW} {
			_ = c.Close()
		}
	}
	return duplex{upR, downW, closeAll}, duplex{downR, upW, closeAll}
}

func (j *fakeJob) hostile() *fakeAgent { return j.agents[2] }

// run runs the job until it ends.
func (j *fakeJob) run(ctx context.Context) (*Result, error) {
	for _, a := range j.agents {
		j.serving.Go(a.serve)
	}
	s := j.session
	s.signals = newSignals(&s.settings)
	for _, n := range s.nodes {
		n.listen()
	}
	s.heartbeat.start(&s.spec, s.nodes)
	r, err := s.run(ctx)
	j.end()
	s.close()
	j.serving.Wait()
	return r, err
}

// end makes the ranks of the other agents end.
func (j *fakeJob) end() { j.over.Do(func() { close(j.ended) }) }

// serve answers the launcher until the connection ends.
func (a *fakeAgent) serve() {
	defer a.link.Close()
	if a.attack != never {
		defer a.job.end()
	}
	a.strike(atConnect)
	for {
		f, err := a.link.Read()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.received[f.Type]++
		a.mu.Unlock()
		if err := a.answer(f); err != nil {
			return
		}
	}
}

// mostFlood is the number of bytes after which a flood ends by itself.
const mostFlood = 128 << 20

// strike attacks if the moment is the configured one.
func (a *fakeAgent) strike(m moment) {
	if m != a.attack {
		return
	}
	_, _ = a.stream.Write(a.send) // fails if the launcher has dropped the agent
	for a.floods != nil && a.sent < mostFlood {
		n, err := a.stream.Write(a.floods)
		if a.sent += n; err != nil {
			return
		}
	}
}

func (a *fakeAgent) answer(f wire.Frame) error {
	switch f.Type {
	case wire.TypeHello:
		a.strike(atHello)
	case wire.TypeStart:
		return a.start(f)
	case wire.TypeSignal, wire.TypeKill:
		return a.end(syscall.SIGTERM)
	case wire.TypeSuspend:
		return a.link.Send(&wire.Suspend{})
	case wire.TypeGrow:
		return a.grow(f)
	case wire.TypeSpawned:
		a.spawned = &wire.Spawned{}
		_ = f.Decode(a.spawned)
		if a.answered != nil {
			a.answered()
		}
		return a.end(0)
	case wire.TypeCleanup:
		err := a.link.Send(&wire.CleanedUp{})
		if a.strike(atGone); a.attack != never {
			a.job.end()
		}
		return err
	}
	_, err := a.reply(f)
	return err
}

// start reports that the ranks run. The hostile agent's ranks end at once, the others after the attack.
func (a *fakeAgent) start(f wire.Frame) error {
	var m wire.Start
	if err := f.Decode(&m); err != nil {
		return err
	}
	if err := a.run(m.Ranks); err != nil {
		return err
	}
	switch {
	case a.spawns != nil:
		return a.link.Send(&wire.Spawn{Call: 1, Request: a.spawns(&m)})
	case a.attack != never:
		a.strike(atStart)
		return a.end(0)
	}
	a.job.serving.Go(func() {
		<-a.job.ended
		_ = a.end(0)
	})
	return nil
}

// grow reports that spawned ranks run. They end at once.
func (a *fakeAgent) grow(f wire.Frame) error {
	var m wire.Grow
	if err := f.Decode(&m); err != nil || len(m.Ranks) == 0 {
		return err
	}
	a.grown += len(m.Ranks)
	grown, ended := &wire.Grown{Number: m.Number, At: time.Now()}, &wire.Ended{}
	for _, row := range m.Ranks {
		grown.Ranks = append(grown.Ranks, wire.RankPID{Rank: row.Rank, PID: 2000})
		ended.Ranks = append(ended.Ranks, spec.Exit{Rank: row.Rank, PID: 2000, At: time.Now()})
	}
	if err := a.link.Send(grown); err != nil {
		return err
	}
	return a.link.Send(ended)
}
