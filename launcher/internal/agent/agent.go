// Package agent is a node's side of a job: it measures the node, opens the
// store, starts the ranks, passes on what they write and how they end, and
// leaves nothing of them behind.
//
// An agent decides nothing about the job. The exceptions, each because only the
// node can know: which file a program's name means there, how hard leftovers
// have to be pushed once the head ordered their end, and, should the head be
// gone, that its ranks must end.
package agent

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/wire"
	nvml "gorun/placement/nvml/worker"
)

// Config is what an agent gets from the program it runs in.
type Config struct {
	// Stdin, Stdout and Stderr are the launcher's own, for ranks that inherit
	// them; nil where there is none.
	Stdin, Stdout, Stderr *os.File
	// Link is the connection behind the link where the head is another process; nil: this one.
	Link syscall.Conn
	// TempDir is where private files go.
	TempDir string
	// Subreaper says that this process adopts the job's orphans. All that it starts
	// itself while ranks run, but ranks and their guard, package child starts.
	Subreaper bool
	// Executable becomes the guard's sweep when this process is gone; "" is this
	// program itself, which then calls process.EnterGuard first.
	Executable string
	// NVML is the program that asks NVIDIA's library.
	NVML nvml.Program
	// Version is gorun's.
	Version string
	// Environ is the agent's own environment where it is on another host than the
	// head: it completes what the head sends.
	Environ []string
	// Inherited is the environment of this process, for programs that only look at the node.
	Inherited []string
	// Own is set where somebody started this node by a command line of its own.
	Joined *Joined
	// Display is how this process shows what its rank prints; nil: the head does.
	Display *Display
	// Door is where store clients come to a port that others come to as well; nil: the
	// store has a port of its own.
	SharedPort SharedPort
	// Signals has those that this process got and that are for the head; nil: none.
	Signals <-chan syscall.Signal
	// Engine says whether a resource manager started this agent, from which Signals come.
	Engine Engine
	// Settled is called in each attempt once its ranks have run for a moment, and the end of
	// the attempt waits for it; nil: nothing. What guarded is told is removed should this
	// process be killed.
	Settled func(guarded func(path string))
	// Health answers probes already; nil: the agent does, where its ranks' environment says so.
	Health *Health
	// Lease is how long the agent goes on without a frame of the head until that says
	// another time; 0: for ever.
	Lease time.Duration
}

// Agent is one node's side of one job.
type Agent struct {
	cfg  Config
	link *wire.Link

	programs []program.Resolved
	counted  atomic.Int32 // devices of Hello's, for as many ranks
	checked  int          // the number of ranks that limits were compared with
	probing  probing
	store    store
	job      *job          // nil until Start
	began    process.Ticks // before the first rank of the first attempt; 0 until then
	lease    lease
	copied   wire.Copied
	runDir   string // of the log files of a node that joined
	probed   int    // how many addresses were tried
	engine   engineSignals
	active   atomic.Pointer[job] // job, for those who hear of signals
	health   *Health             // nil: nobody answers probes
}

// Serve answers the head's frames until the connection ends, and then ends
// whatever of the job is left.
func Serve(link *wire.Link, cfg Config) error {
	link.GuardHead(cfg.Joined != nil)
	a := &Agent{cfg: cfg, link: link, health: cfg.Health}
	a.lease.linkClosed = make(chan struct{})
	defer link.Close() // a head that is still there has nobody to wait for
	defer a.close()
	defer close(a.lease.linkClosed)
	go a.forwardSignals()
	a.lease.begin(cfg.Lease, link)
	for {
		f, err := link.Read()
		if err != nil {
			return a.lease.explain(err)
		}
		a.lease.renew()
		a.health.working(true)
		err = a.handle(f)
		a.health.working(false)
		if err != nil {
			return err
		}
	}
}

// close is the end of every job: in order, when nothing is left to end, and
// else because the head is gone.
func (a *Agent) close() {
	a.probing.close()
	if a.job != nil {
		a.job.abandon(a.lease.grace())
	}
	a.store.close()
	if a.cfg.Health == nil {
		a.health.Close()
	}
	if a.lease.expired.Load() { // else the head has it done, or the end of the connection
		endCopyKeeper(a.copied)
	}
}

func (a *Agent) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TypeHello:
		return with(f, a.hello)
	case wire.TypeProbe:
		return with(f, a.probe)
	case wire.TypeCheck:
		return with(f, a.check)
	case wire.TypeOpen:
		a.probing.close()
		return with(f, a.open)
	case wire.TypeStart:
		a.probing.close()
		return with(f, a.start)
	case wire.TypePing:
		return with(f, a.pong)
	case wire.TypeJobEnded:
		return with(f, func(o wire.JobEnded) error { return &OverError{o.Code, o.Text, a.firstError()} })
	case wire.TypeExchange:
		return with(f, a.exchange)
	}
	if a.job == nil {
		return fmt.Errorf("agent: %s frame before the ranks were started", f.Type)
	}
	return a.job.handle(f)
}

// with decodes a control frame for the method that answers it.
func with[T any, M wire.PointerTo[T]](f wire.Frame, answer func(T) error) error {
	var body T
	if err := f.Decode(M(&body)); err != nil {
		return err
	}
	return answer(body)
}

// do decodes a control frame for what cannot fail.
func do[T any, M wire.PointerTo[T]](f wire.Frame, act func(T)) error {
	return with[T, M](f, func(body T) error { act(body); return nil })
}

// handle answers what the head says to a running job.
func (j *job) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TypeSignal:
		return do(f, j.signal)
	case wire.TypeInspect:
		return do(f, func(i wire.Inspect) { j.answerQuery(func(done func()) { j.inspect(i, done) }) })
	case wire.TypeUsage:
		return do(f, func(u wire.Usage) { j.answerQuery(func(done func()) { j.usage(u, done) }) })
	case wire.TypeGrow:
		return with(f, j.grow)
	case wire.TypeSpawned:
		return do(f, j.spawnAnswered)
	case wire.TypeSuspend:
		j.agent.lease.pause()
		j.signal(wire.Signal{Signal: syscall.SIGSTOP, Group: true})
		return j.agent.link.Send(&wire.Suspend{})
	case wire.TypeKill:
		j.kill()
	case wire.TypeCredit:
		return do(f, func(c wire.Credit) { j.credit.add(c.Stream, c.Bytes) })
	case wire.TypeStdin:
		rank, _, p, err := f.Stream()
		if err == nil {
			err = j.stdin.write(rank, p)
		}
		return err
	case wire.TypeResize:
		return do(f, func(r wire.Resize) { j.group.ResizePTYs(r.Rows, r.Cols) })
	case wire.TypeCleanup:
		return do(f, func(e wire.Cleanup) {
			if !j.endRequested.Swap(true) {
				go j.finish(e.Grace)
			}
		})
	}
	return nil
}

// signals remembers what was sent while ranks were still being started, for
// those that came later.
type signals struct {
	mu       sync.Mutex
	starting int           // how many times ranks are being started
	sent     []wire.Signal // meanwhile
	killed   atomic.Bool   // SIGKILLs may be our own
	// noted says that it was looked for files of ranks which then got SIGTERM. It belongs to the agent's loop.
	noted bool
	// asked is when ranks were first asked to end; nil: not yet. Whoever notes their
	// ends must not wait for mu.
	firstRequest atomic.Pointer[time.Time]
	// engine has those that a resource manager sends.
	engine *engineSignals
}

// ask notes that ranks are asked to end, before they can hear of it.
func (s *signals) requestEnd() {
	now := time.Now()
	s.firstRequest.CompareAndSwap(nil, &now)
}

func (s *signals) endRequestedAt() time.Time {
	if at := s.engine.endRequestedAt(); !at.IsZero() {
		return at
	}
	if at := s.firstRequest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (j *job) signal(s wire.Signal) {
	ends := s.Group && s.Signal != syscall.SIGSTOP && s.Signal != syscall.SIGCONT
	if ends {
		j.signals.noted = j.signals.noted || s.Signal == syscall.SIGTERM
		j.mpi.noteMappedFiles()
	} else if s.Group {
		j.mpi.suspend(s.Signal == syscall.SIGSTOP)
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	if j.signals.starting > 0 && len(j.signals.sent) < maxSignals {
		j.signals.sent = append(j.signals.sent, s)
	}
	if ends {
		j.signals.requestEnd()
		j.display.hurryUp()
		if j.signals.starting == 0 && j.signals.engine.has(s.Signal) {
			return
		}
	}
	j.deliver(s, j.rows())
}

func (j *job) deliver(s wire.Signal, rows []wire.Row) {
	for _, row := range rows {
		id, r := row.Rank, j.rank(row.Rank)
		switch {
		case r == nil, r.pid.Load() == 0:
		case s.Group:
			_ = j.group.Signal(id, s.Signal) // it may have ended meanwhile
		default:
			_ = j.group.SignalProcess(id, s.Signal)
		}
	}
}

// kill ends every process of the job on this node at once.
func (j *job) kill() {
	if !j.signals.noted {
		j.mpi.noteMappedFiles()
	}
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	j.signals.killed.Store(true)
	j.signals.requestEnd()
	j.display.hurryUp()
	j.deliver(wire.Signal{Signal: syscall.SIGKILL, Group: true}, j.rows())
	if !j.killSweep.Swap(true) {
		t := j.sessions() // not orphans: ranks that are being started would pass for them
		go func() {
			defer j.killSweep.Store(false)
			t.KillAll(killTimeout)
		}()
	}
}

// begin remembers signals from now on, and returns which will be the first.
func (s *signals) begin() (first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting++
	return len(s.sent)
}

// started replays what ranks missed that did not exist yet.
func (j *job) started(rows []wire.Row, first int) {
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	for _, s := range j.signals.sent[first:] {
		j.deliver(s, rows)
	}
	if j.signals.killed.Load() {
		j.deliver(wire.Signal{Signal: syscall.SIGKILL, Group: true}, rows)
	}
	if j.signals.starting--; j.signals.starting == 0 {
		j.signals.sent = nil
	}
}
