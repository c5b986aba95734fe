package launcher

import (
	"context"
	"fmt"
	"io"
	"net/netip"
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

// moment is when a hostile agent attacks.
type moment int

const (
	atConnect moment = iota // before it was asked anything
	atHello                 // in place of its facts
	atStart                 // once its ranks run
	atGone                  // when nothing is left of them, and others run
	never
)

var momentNames = [...]string{"connected", "asked", "started", "gone"}

// fakeAgent speaks for a node, as a real agent does, until it attacks.
type fakeAgent struct {
	link   *wire.Link
	stream io.ReadWriteCloser
	index  int
	attack moment
	send   []byte // the attack
	// spawns is what a rank wishes once it runs; nil: it does not.
	spawns func(s *wire.Start) world.Spawn
	// floods is sent again and again in place of the attack.
	floods   []byte
	sent     int // bytes of it
	job      *fakeJob
	at       netip.Addr // its address; invalid: one of its own
	answered func()     // called when a spawn was answered; nil: nothing

	mu      sync.Mutex
	heard   map[wire.Type]int
	ranks   []int
	spawned *wire.Spawned // the answer
	grown   int           // ranks that it started more
}

// fakeJob is a job whose head is real, and whose agents are not: the last one is hostile.
type fakeJob struct {
	session *session
	agents  []*fakeAgent
	serving sync.WaitGroup
	over    sync.Once
	ended   chan struct{} // closed when the hostile agent has done its part, or was lost
}

func newFakeJob(t testing.TB, kind wire.Peer, mpi job.MPIMode) *fakeJob {
	t.Helper()
	j := &fakeJob{ended: make(chan struct{})}
	s := &session{settings: settings{stdout: io.Discard, stderr: io.Discard}, endBeat: func() {}}
	s.spec = Spec{
		Apps: []job.App{{Program: "/home/alice/sleep"}}, PerNode: job.Count{Kind: job.CountFixed, N: 1}, MPI: mpi,
		Grace:   time.Second,
		Environ: []string{"PATH=/usr/bin:/bin", "HOME=/home/alice", "TMPDIR=/tmp"},
		Output:  job.OutputWish{LogDir: "/dev/null"},
	}
	for i := range 3 {
		n := &node{place: i, host: hosts.Host{Name: fmt.Sprintf("node%d", i), Slots: 1}, name: fmt.Sprintf("node%d", i)}
		n.tell = func(string) {}
		head, far := net2()
		n.linkTo(wire.NewLink(reach.Queued(head)), wire.PeerSSH)
		a := &fakeAgent{link: wire.NewLink(far), stream: far, index: i, attack: never, job: j, heard: map[wire.Type]int{}}
		if i == 2 {
			n.linkTo(n.link, kind)
			n.joined = kind == wire.PeerJoined || kind == wire.PeerUnvouched
		}
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

// hostile is the agent that attacks.
func (j *fakeJob) hostile() *fakeAgent { return j.agents[2] }

// run runs the job until it is over.
func (j *fakeJob) run(ctx context.Context) (*Result, error) {
	for _, a := range j.agents {
		j.serving.Go(a.serve)
	}
	s := j.session
	s.signals = newSignals(&s.settings)
	for _, n := range s.nodes {
		n.listen()
	}
	s.beat()
	r, err := s.run(ctx)
	j.end()
	s.close()
	j.serving.Wait()
	return r, err
}

// end has the other agents' ranks end.
func (j *fakeJob) end() { j.over.Do(func() { close(j.ended) }) }

// serve answers the head until that is gone.
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
		a.heard[f.Type]++
		a.mu.Unlock()
		if err := a.answer(f); err != nil {
			return
		}
	}
}

// mostFlood is when a flood ends that nobody stops, in bytes.
const mostFlood = 128 << 20

// strike attacks if it is time for that.
func (a *fakeAgent) strike(m moment) {
	if m != a.attack {
		return
	}
	_, _ = a.stream.Write(a.send) // or the head has given it up
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
		return a.link.Send(a.facts())
	case wire.TypeProbe:
		var p wire.Probe
		_ = f.Decode(&p)
		return a.link.Send(a.reached(p))
	case wire.TypeOpen:
		addr := a.address().String()
		return a.link.Send(&wire.Opened{Opened: spec.Opened{Addr: addr, Port: 29500, Store: addr + ":29500"}})
	case wire.TypeStart:
		return a.start(f)
	case wire.TypePing:
		var p wire.Ping
		_ = f.Decode(&p)
		return a.link.Send(&wire.Pong{Sent: p.Sent, At: time.Now()})
	case wire.TypeSignal, wire.TypeKill:
		return a.endRanks(syscall.SIGTERM)
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
		return a.endRanks(0)
	case wire.TypeEnd:
		err := a.link.Send(&wire.Gone{})
		if a.strike(atGone); a.attack != never {
			a.job.end()
		}
		return err
	}
	return nil
}

func (a *fakeAgent) facts() *wire.Facts {
	return &wire.Facts{
		Facts: spec.Facts{
			Host: fmt.Sprintf("ip-%d", a.index), TempDir: "/tmp", Boot: fmt.Sprint(a.index),
			Machine: placement.Machine{CPUs: placement.CPUSetOf([]uint64{0xf})}, Programs: []spec.Program{{
				Path: "/home/alice/sleep", Argv: []string{"sleep"}, ScriptArg: 1, Kind: "executable",
			}},
		},
		Version: wire.Version,
	}
}

func (a *fakeAgent) address() netip.Addr {
	if a.at.IsValid() {
		return a.at
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(a.index)})
}

func (a *fakeAgent) reached(p wire.Probe) *wire.Reached {
	r := &wire.Reached{}
	if p.Listen {
		r.Port = 40000
		r.Candidates = []probe.Candidate{{Addr: a.address(), Bits: 8, Interface: "eth0", Kind: "ordinary"}}
	}
	for i := range p.Targets {
		r.Answers = append(r.Answers, probe.Answer{
			Target: i, RTT: time.Millisecond, Local: a.address(),
			Interface: "eth0",
		})
	}
	return r
}

// start says that the ranks run. The hostile one's end at once, the others' when that is done.
func (a *fakeAgent) start(f wire.Frame) error {
	var m wire.Start
	if err := f.Decode(&m); err != nil {
		return err
	}
	running := wire.Running{At: time.Now()}
	a.mu.Lock()
	for _, row := range m.Ranks {
		a.ranks = append(a.ranks, row.Rank)
		running.Ranks = append(running.Ranks, wire.RankPID{Rank: row.Rank, PID: 1000})
	}
	a.mu.Unlock()
	if err := a.link.Send(&running); err != nil {
		return err
	}
	switch {
	case a.spawns != nil:
		return a.link.Send(&wire.Spawn{Call: 1, Wish: a.spawns(&m)})
	case a.attack != never:
		a.strike(atStart)
		return a.endRanks(0)
	}
	a.job.serving.Go(func() {
		<-a.job.ended
		_ = a.endRanks(0)
	})
	return nil
}

// grow says that more ranks run, which end at once.
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

func (a *fakeAgent) endRanks(sig syscall.Signal) error {
	a.mu.Lock()
	ranks := a.ranks
	a.ranks = nil
	a.mu.Unlock()
	if ranks == nil {
		return nil
	}
	ended := &wire.Ended{}
	for _, rank := range ranks {
		ended.Streams = append(ended.Streams, wire.StreamEnd{Rank: rank, Stream: 1}, wire.StreamEnd{Rank: rank, Stream: 2})
		ended.Ranks = append(ended.Ranks, spec.Exit{Rank: rank, PID: 1000, Signal: sig, At: time.Now()})
	}
	return a.link.Send(ended)
}
