// Package agent is a node's side of a job: it inspects the node, opens the store, starts the ranks, forwards their
// output and exits, and cleans up after them.
//
// The head makes all decisions about the job, except for those that need the node's knowledge: which file a program's
// name refers to, how to end orphans after the head has ordered the end, and to end the ranks if the head is lost.
package agent

import (
	"cmp"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/forkserver"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/wire"
	nvml "gorun/placement/nvml/worker"
)

// Config configures an agent.
type Config struct {
	// Stdin, Stdout and Stderr are the launcher's, for ranks that inherit them; nil: /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Link is the connection behind the wire.Link if the head is another process; nil: it is this one.
	Link syscall.Conn
	// TempDir is the directory for private files.
	TempDir string
	// Subreaper says that this process adopts the job's orphans. While ranks run it must start other children with
	// package child only.
	Subreaper bool
	// Executable is the guard's program, see process.GuardConfig.
	Executable string
	// NVML is the program that queries NVIDIA's library.
	NVML nvml.Program
	// Version is gorun's.
	Version string
	// Environ is the agent's environment if it is on another host than the head. It completes what the head sends.
	Environ []string
	// Inherited is this process's environment, for programs that only inspect the node.
	Inherited []string
	// Joined is set if the node has joined a job with its own command line.
	Joined *Joined
	// Display shows the output of the rank in this process; nil: the head does.
	Display *Display
	// SharedPort is a port that the store shares with other services; nil: the store has its own port.
	SharedPort SharedPort
	// Signals are signals of this process to report to the head; nil: none.
	Signals <-chan syscall.Signal
	// Engine says where Signals come from.
	Engine Engine
	// Settled is called in each attempt once its ranks have run for a moment; the end of the attempt waits for it. nil:
	// nothing. A path passed to guarded is removed if this process is killed.
	Settled func(guarded func(path string))
	// Health answers health checks already; nil: the agent does so if its ranks' environment asks for it.
	Health *Health
	// Lease is the initial lease: the agent ends if it receives no frame for so long. 0: never. The head may change it.
	Lease time.Duration
}

// Agent is one node's side of one job. Its loop, Serve, owns all fields but counted, lease, engine, forks, closing
// and active, which are safe for concurrent use.
type Agent struct {
	cfg  Config
	link *wire.Link

	programs []program.Resolved
	counted  atomic.Int32 // devices found for Hello.Device
	checked  int          // number of ranks for which limits were checked
	probing  probing
	store    store
	job      *job                // latest attempt; nil until Start
	active   atomic.Pointer[job] // the same, for the goroutine that forwards signals
	since    process.Ticks       // before the first rank of the first attempt; 0 until then
	lease    lease
	copied   wire.Copied
	runDir   string // of log files on a node that joined
	probed   int    // number of addresses tried
	engine   engineSignals
	health   *Health                           // nil: none
	forks    atomic.Pointer[forkserver.Server] // nil: none
	closing  atomic.Bool
}

// Serve handles the head's frames until the connection ends, and then ends the rest of the job. Its error says why
// the connection ended; for a node that joined it is an *OverError if the job is over, or ErrInterrupted.
func Serve(link *wire.Link, cfg Config) error {
	process.ReserveStack()
	link.GuardHead(cfg.Joined != nil)
	cfg.NVML.Beside = cmp.Or(cfg.NVML.Beside, cfg.Executable)
	a := &Agent{cfg: cfg, link: link, health: cfg.Health}
	a.lease.linkClosed = make(chan struct{})
	defer link.Close() // last: the head waits for it
	over := make(chan struct{})
	defer close(over)
	defer a.close()
	defer close(a.lease.linkClosed)
	go a.forwardSignals(over)
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

// close ends the attempt unless it has ended already, and closes everything.
func (a *Agent) close() {
	a.probing.close()
	if a.job != nil {
		a.job.hurryUp()
		a.job.abandon(a.lease.grace())
	}
	a.closing.Store(true)
	if forks := a.forks.Load(); forks != nil {
		forks.Close()
		if a.job != nil && process.HasChildren() { // which imported modules have started, as daemons or not
			process.Target{Since: a.since, Known: a.job.knownChildren()}.KillAll(killTimeout)
		}
	}
	a.store.close()
	if a.cfg.Health == nil {
		a.health.Close()
	}
	if a.lease.expired.Load() { // else the head or the closed connection ends it
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
	case wire.TypeWarm:
		return do(f, a.warm)
	case wire.TypePing:
		return with(f, a.pong)
	case wire.TypeJobEnded:
		a.lease.dismissed.Store(true)
		return with(f, func(o wire.JobEnded) error { return &OverError{o.Code, o.Text, a.firstError()} })
	case wire.TypeExchange:
		return with(f, a.exchange)
	}
	if a.job == nil {
		return fmt.Errorf("agent: %s frame before the ranks were started", f.Type)
	}
	return a.job.handle(f)
}

// with decodes a control frame and passes it to answer.
func with[T any, M wire.PointerTo[T]](f wire.Frame, answer func(T) error) error {
	var body T
	if err := f.Decode(M(&body)); err != nil {
		return err
	}
	return answer(body)
}

// do is with for a function that cannot fail.
func do[T any, M wire.PointerTo[T]](f wire.Frame, act func(T)) error {
	return with[T, M](f, func(body T) error { act(body); return nil })
}
