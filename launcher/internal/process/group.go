package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
	"gorun/launcher/internal/process/kernel"
)

// maxThreads bounds the spawner threads of a group. More than four fight for
// the kernel's process locks and gain nothing.
const maxThreads = 4

// ErrClosed is returned for a group that was closed.
var ErrClosed = errors.New("process group of ranks is closed")

// ErrNotStarted is returned by calls that name a rank which has no process.
var ErrNotStarted = errors.New("rank was not started")

// Common is what the ranks of one Start share. Its strings are made ready for
// the kernel once, not once a rank.
type Common struct {
	Env  []string // "NAME=value", before each rank's own
	Path string   // program file, with a slash or relative to the rank's Dir
	Argv []string // with the program's name at index 0
	// Cgroup is what the ranks are born into, nil: nothing of the kind. Where the
	// kernel refuses, they are started without.
	Cgroup *cgroup.Group
	// Sockets gives each rank one end of a pair of stream sockets as its descriptor 3.
	// What comes of it says Sink.Spoke.
	Sockets bool
}

// Binding is where a rank runs and has its memory; Bound, why that was refused.
type (
	Binding = kernel.Binding
	Bound   = kernel.Bound
)

// Rank is what one rank has of its own. An empty Path and no Argv are Common's.
type Rank struct {
	ID                    int      // names the rank in the Sink's and Group's methods; unique in a group
	Env                   []string // appended to Common.Env, whose names it must not repeat
	Path                  string
	Argv                  []string
	Dir                   string // working directory; "" is that of this process
	Stdin, Stdout, Stderr Stream
	Binding               Binding // of its threads and memory
}

// Status says how a process ended.
type Status struct {
	Code   int            // exit code; -1 if a signal ended it, or nobody knows
	Signal syscall.Signal // signal that ended it, or 0
	Core   bool           // a core was dumped
}

// Sink receives what happens to the ranks. Its methods are called on the
// spawner threads, for one rank always on the same one and in order, and delay
// that thread's ranks for as long as they run.
type Sink interface {
	// Started comes first of all for a rank, when its program is executing.
	Started(id, pid int)
	// Unbound comes right after Started for a rank whose Binding the kernel refused,
	// in part at least. It runs all the same.
	Unbound(id int, b Bound)
	// Output hands over bytes of stream 1 or 2. p is only valid during the call.
	Output(id, stream int, p []byte)
	// Closed comes last for a stream: all that could write to it have closed it,
	// or the group was closed.
	Closed(id, stream int)
	// Exited comes when the rank's process has ended, at is when that was noticed.
	// What the process itself had written was handed over before, unless the
	// stream is paused; a descendant that holds a stream open may still write to it.
	Exited(id int, s Status, at time.Time)
	// Spoke comes when a rank has written to its descriptor 3 for the first time, if
	// Common.Sockets gave it one, and before Exited if it did so itself. fd is our end
	// with all that it wrote; it is closed on exec, does not block, and the callee's
	// from now on.
	Spoke(id, fd int)
}

// Group is a set of ranks' processes on this host. Its methods may be called
// from several goroutines at once.
type Group struct {
	sink    Sink
	threads int

	paused [numStreams]atomic.Bool
	way    atomic.Int32 // a kernel.Way
	nobody atomic.Bool  // the kernel lets nobody be born into a cgroup
	window atomic.Pointer[unix.Winsize]

	starting sync.Mutex // one Start or Close at a time; guards shared
	shared   sharedDescriptors
	growth   sync.WaitGroup // of the descriptor table

	mu       sync.RWMutex // guards the fields below; read-locked while a rank is signalled
	ranks    map[int]*rank
	spawners []*spawner
	closed   bool // nothing is signalled any more, ranks may be reaped
}

// rank is one rank's process. Apart from the atomic fields it belongs to its spawner.
type rank struct {
	Rank
	index int32 // in spawner.ranks, its tag in epoll
	pid   atomic.Int32
	pidfd int32
	end   [numStreams]int32 // our ends of its streams, -1: none or closed
	input atomic.Pointer[input]

	hasSocket bool
	socket    int32 // our end of its pair, 0: none, or not ours any more

	exited bool
	stolen atomic.Bool // somebody else in this process has reaped it: pid is not ours
	// keeper is the spawner that started it, set once it has ended.
	keeper atomic.Pointer[spawner]
	reaped bool
}

// NewGroup returns a group without ranks, which has a thread for each CPU that this process may use, at most 4, and
// never more than ranks. It holds neither threads nor descriptors until the first Start.
func NewGroup(sink Sink) *Group {
	return &Group{sink: sink, threads: min(runtime.NumCPU(), maxThreads), shared: noDescriptors, ranks: map[int]*rank{}}
}

// Start starts ranks and returns when each of them executes its program, or with
// the *StartError of the first in their order that could not. Ranks that were
// started before it, or by another thread at that moment, stay and are the
// caller's to end. Their output is read meanwhile.
func (g *Group) Start(c Common, ranks []Rank) error {
	if len(ranks) == 0 {
		return nil
	}
	g.starting.Lock()
	defer g.starting.Unlock()
	img, err := newImage(c)
	if err != nil {
		return err
	}
	slots, err := g.register(c, ranks)
	if err != nil {
		return err
	}
	if err := g.shared.open(ranks); err != nil {
		return &StartError{
			ID: ranks[0].ID, Op: "open standard streams", Err: err,
			Hint: LimitFor(err, len(ranks), c.perRank()),
		}
	}
	g.makeRoom(len(ranks), c.perRank())
	spawners, err := g.threadsFor(len(ranks))
	if err != nil {
		return &StartError{ID: ranks[0].ID, Op: "prepare threads", Err: err, Hint: LimitFor(err, len(ranks), c.perRank())}
	}
	j := &start{common: c, image: img, ranks: slots, launcher: os.Getpid(), openFiles: usersOpenFiles()}
	j.busy.Add(len(spawners))
	for _, s := range spawners {
		s.post(func() { s.share(j) })
	}
	j.busy.Wait()
	if err := j.err(); err != nil {
		g.unregister(slots)
		return err
	}
	return nil
}

// register makes the ranks known by their ids.
func (g *Group) register(c Common, ranks []Rank) ([]rank, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	slots := make([]rank, len(ranks))
	for i := range ranks {
		r := &slots[i]
		r.Rank, r.hasSocket = ranks[i], c.Sockets
		r.pidfd, r.end = -1, [numStreams]int32{-1, -1, -1}
		if _, ok := g.ranks[r.ID]; ok {
			return nil, fmt.Errorf("start rank %d: its id is in use", r.ID)
		}
		if r.hasPTY() && r.Stdout.Kind != PTY {
			return nil, fmt.Errorf("start rank %d: a pseudo-terminal without stdout", r.ID)
		}
		g.ranks[r.ID] = r
	}
	return slots, nil
}

// unregister forgets ranks that have no process.
func (g *Group) unregister(ranks []rank) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range ranks {
		if ranks[i].pid.Load() == 0 {
			delete(g.ranks, ranks[i].ID)
		}
	}
}

// growFrom is the number of ranks from which on growing the descriptor table at
// once and beside the first starts gains time: a tenth at 256 ranks that live on.
const growFrom = 48

// makeRoom grows the descriptor table for many ranks.
func (g *Group) makeRoom(ranks, perRank int) {
	if ranks >= growFrom {
		g.growth.Go(func() { GrowDescriptorTable(ranks*perRank + ownDescriptors) })
	}
}

// threadsFor returns the spawners that start n ranks, and makes those that don't
// exist yet.
func (g *Group) threadsFor(n int) ([]*spawner, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n = min(g.threads, n)
	for len(g.spawners) < n {
		s, err := newSpawner(g)
		if err != nil {
			return nil, err
		}
		g.spawners = append(g.spawners, s)
		go s.run()
	}
	return g.spawners[:n], nil
}

// postAll posts to every spawner.
func (g *Group) postAll(do func(*spawner)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, s := range g.spawners {
		s.post(func() { do(s) })
	}
}

// Signal sends sig to the process group of a rank, which has the number of its
// pid. The rank stays a zombie until Close or Reap, so that this number cannot become
// anybody else's: a signal reaches what a rank left behind in its group even
// after its own end, and is silently without effect when nothing is there.
func (g *Group) Signal(id int, sig syscall.Signal) error { return g.kill(id, -1, sig) }

// SignalProcess sends sig to the rank's own process only.
func (g *Group) SignalProcess(id int, sig syscall.Signal) error { return g.kill(id, 1, sig) }

func (g *Group) kill(id, sign int, sig syscall.Signal) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return ErrClosed
	}
	r, ok := g.ranks[id]
	if !ok || r.pid.Load() == 0 {
		return fmt.Errorf("signal rank %d: %w", id, ErrNotStarted)
	}
	if r.stolen.Load() {
		return fmt.Errorf("signal rank %d: %w", id, os.ErrProcessDone)
	}
	if err := syscall.Kill(sign*int(r.pid.Load()), sig); err != nil {
		return fmt.Errorf("signal rank %d: %w", id, err)
	}
	return nil
}

// Reap lets go of those of some ranks that have ended: their streams are closed, nothing can
// be sent to them any more, and their pids and ids are free for others. Of their sessions
// nobody may be left: a sweep would not know them any more. It must not be called from a
// Sink's method.
func (g *Group) Reap(ids []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		r := g.ranks[id]
		if r == nil || r.keeper.Load() == nil || g.closed {
			continue
		}
		delete(g.ranks, id)
		r.reap()
		keeper := r.keeper.Load()
		keeper.post(func() { keeper.forget(r) })
	}
}

// reap takes the exit status of a rank that has ended, unless somebody else has.
func (r *rank) reap() {
	if !r.stolen.Load() {
		_ = reap(unix.P_PID, int(r.pid.Load()))
	}
}

// Close kills the ranks that still run, closes all streams, also those that
// descendants of ranks hold open, and reaps. When it returns, no thread,
// goroutine or descriptor of the group is left. It must not be called from a
// Sink's method. Its error names ranks that did not die within two seconds.
func (g *Group) Close() error {
	g.starting.Lock()
	defer g.starting.Unlock()
	g.mu.Lock()
	spawners := g.spawners
	g.closed, g.spawners = true, nil
	g.mu.Unlock()

	for _, s := range spawners {
		s.post(func() { s.closing = true })
	}
	left := 0
	g.growth.Wait()
	for _, s := range spawners {
		<-s.done
		left += s.left
	}
	g.shared.close()
	if left > 0 {
		return fmt.Errorf("close: %d ranks did not die within %v of SIGKILL; they hang in the kernel", left, closeWait)
	}
	return nil
}
