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

// maxThreads bounds the spawner threads of a group. More than four contend for the kernel's process locks.
const maxThreads = 4

// ErrClosed is returned by methods of a closed group.
var ErrClosed = errors.New("process group of ranks is closed")

// ErrNotStarted is returned for a rank that has no process.
var ErrNotStarted = errors.New("rank was not started")

// Common is shared by the ranks of one Start. Its strings are converted for the kernel once, not once per rank.
type Common struct {
	Env  []string // "NAME=value"; each rank's own follow
	Path string   // program file: absolute, or relative to the rank's Dir
	Argv []string // program name at index 0
	// Cgroup is the group to spawn the ranks in; nil: none. If the kernel refuses, they are started outside of it.
	Cgroup *cgroup.Group
	// Sockets gives each rank one end of a socket pair (AF_UNIX, SOCK_STREAM) as descriptor 3. See Sink.SocketReadable.
	Sockets bool
	// Fork makes ranks' processes; nil: vfork and execve do. After an error of it a rank starts that way, too.
	Fork func(Fork) (pid int, failed BindError, err error)
}

// Binding is a rank's CPU affinity and memory policy; BindError says which part failed.
type (
	Binding   = kernel.Binding
	BindError = kernel.BindError
)

// Rank describes one rank. Path "" and Argv nil mean Common's.
type Rank struct {
	ID                    int      // identifies the rank in a Group and its Sink; unique in the group
	Env                   []string // appended to Common.Env, whose names it must not repeat
	Path                  string
	Argv                  []string
	Dir                   string // working directory; "": this process's
	Stdin, Stdout, Stderr Stream
	Binding               Binding
}

// Status is the exit status of a process.
type Status struct {
	Code   int            // exit code; -1 if a signal ended the process, or the status is unknown
	Signal syscall.Signal // signal that ended it, or 0
	Core   bool           // a core was dumped
}

// Sink receives the events of ranks. Its methods run on the spawner threads: for one rank always on the same thread
// and in order. While a method runs, no other rank of that thread is served.
type Sink interface {
	// Started is the first call for a rank: its program is executing.
	Started(id, pid int)
	// BindFailed follows Started if the kernel refused part of the rank's Binding. The rank runs nevertheless.
	BindFailed(id int, err BindError)
	// Output delivers bytes of stream 1 or 2. p is valid only during the call.
	Output(id, stream int, p []byte)
	// Closed is the last call for a stream: every writer has closed it, or the group was closed.
	Closed(id, stream int)
	// Exited reports that the rank's process has ended, noticed at the given time. All that the process itself wrote
	// was delivered before, unless the stream is paused. A descendant that holds a stream open may still write to it.
	Exited(id int, s Status, at time.Time)
	// SocketReadable reports that a rank has written to its descriptor 3 for the first time (see Common.Sockets); it
	// comes before Exited if the rank itself did. fd is our end with all that was written: closed on exec,
	// non-blocking, and owned by the callee from now on.
	SocketReadable(id, fd int)
}

// Group is a set of ranks' processes on this host. Its methods are safe for concurrent use.
type Group struct {
	sink    Sink
	threads int

	paused            [numStreams]atomic.Bool
	variant           atomic.Int32 // the newest kernel.Variant that works
	noCloneIntoCgroup atomic.Bool  // the kernel has no CLONE_INTO_CGROUP
	window            atomic.Pointer[unix.Winsize]

	starting sync.Mutex // serialises Start and Close; guards shared
	shared   sharedDescriptors
	growth   sync.WaitGroup // of the descriptor table

	mu       sync.RWMutex // guards the fields below; read-locked while a rank is signalled
	ranks    map[int]*rank
	spawners []*spawner
	closed   bool // pids may be reused from now on: no more signals
}

// rank is one rank's process. Its spawner owns every field that is not atomic, once Start has registered it.
type rank struct {
	Rank
	index int32 // in spawner.ranks, and in its epoll tags
	pid   atomic.Int32
	pidfd int32             // -1: none
	end   [numStreams]int32 // our ends of its streams; -1: none or closed
	input atomic.Pointer[input]

	hasSocket bool
	socket    int32 // our end of its pair; 0: none, or handed over

	startErr        *StartError
	exited, reaped  bool
	reapedElsewhere atomic.Bool             // another part of this process has waited for it: the pid may be reused
	exitedOn        atomic.Pointer[spawner] // its spawner, set when it has exited
}

// NewGroup returns an empty group. It uses one thread per available CPU, at most 4 and never more than there are
// ranks; it holds no threads and no descriptors until the first Start.
func NewGroup(sink Sink) *Group {
	return &Group{sink: sink, threads: min(runtime.NumCPU(), maxThreads), shared: noDescriptors, ranks: map[int]*rank{}}
}

// Start starts ranks and returns when all of them execute their program. If some cannot be started it returns the
// *StartError of the first of them in order; ranks that did start keep running, and the caller must end them. Output
// is delivered meanwhile.
func (g *Group) Start(c Common, ranks []Rank) (err error) {
	if len(ranks) == 0 {
		return nil
	}
	g.starting.Lock()
	defer g.starting.Unlock()
	img, err := newImage(c)
	if err != nil {
		return err
	}
	slots := make([]rank, len(ranks))
	defer func() {
		if err != nil {
			g.unregister(slots)
		}
	}()
	if err := g.register(c, ranks, slots); err != nil {
		return err
	}
	if err := g.shared.open(ranks); err != nil {
		return &StartError{
			ID: ranks[0].ID, Op: "open standard streams", Err: err,
			Cause: LimitFor(err, len(ranks), c.perRank()),
		}
	}
	if len(ranks) >= growFrom {
		g.growth.Go(func() { GrowDescriptorTable(len(ranks)*c.perRank() + ownDescriptors) })
	}
	spawners, err := g.threadsFor(len(ranks))
	if err != nil {
		return &StartError{ID: ranks[0].ID, Op: "prepare threads", Err: err, Cause: LimitFor(err, len(ranks), c.perRank())}
	}
	b := &batch{common: c, image: img, ranks: slots, launcher: os.Getpid(), openFiles: usersOpenFiles()}
	b.busy.Add(len(spawners))
	for _, s := range spawners {
		s.post(func() { s.startRanks(b) })
	}
	b.busy.Wait()
	return b.err()
}

// register enters ranks into slots, up to the first error.
func (g *Group) register(c Common, ranks []Rank, slots []rank) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	for i := range ranks {
		r := &slots[i]
		r.Rank, r.hasSocket = ranks[i], c.Sockets
		r.pidfd, r.end = -1, [numStreams]int32{-1, -1, -1}
		if _, ok := g.ranks[r.ID]; ok {
			return fmt.Errorf("start rank %d: a rank of that number is running", r.ID)
		}
		if r.hasPTY() && r.Stdout.Kind != PTY {
			return fmt.Errorf("start rank %d: a pseudo-terminal without stdout", r.ID)
		}
		g.ranks[r.ID] = r
	}
	return nil
}

// unregister frees the ids of ranks that have no process.
func (g *Group) unregister(ranks []rank) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range ranks {
		if r := &ranks[i]; r.pid.Load() == 0 && g.ranks[r.ID] == r {
			delete(g.ranks, r.ID)
		}
	}
}

// growFrom is the number of ranks from which growing the descriptor table in one step pays: with 256 long-running
// ranks it saves a tenth of the start.
const growFrom = 48

// threadsFor returns the spawners for n ranks and creates missing ones.
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

func (g *Group) postAll(do func(*spawner)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, s := range g.spawners {
		s.post(func() { do(s) })
	}
}

// Signal sends sig to the process group of a rank. An exited rank stays a zombie until Close or Reap, so its number
// cannot be reused: the signal reaches processes that the rank left in its group, and has no effect if none exist.
func (g *Group) Signal(id int, sig syscall.Signal) error { return g.kill(id, -1, sig) }

// SignalProcess sends sig to the rank's process only.
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
	if r.reapedElsewhere.Load() {
		return fmt.Errorf("signal rank %d: %w", id, os.ErrProcessDone)
	}
	if err := syscall.Kill(sign*int(r.pid.Load()), sig); err != nil {
		return fmt.Errorf("signal rank %d: %w", id, err)
	}
	return nil
}

// Reap reaps those of the given ranks that have exited: it closes their streams and frees their pids and ids. Their
// sessions must be empty, as a later sweep would not find what is in them. Do not call it from a Sink's method.
func (g *Group) Reap(ids []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		r := g.ranks[id]
		if r == nil || g.closed {
			continue
		}
		if s := r.exitedOn.Load(); s != nil {
			delete(g.ranks, id)
			r.reap()
			s.post(func() { s.drop(r) })
		}
	}
}

func (r *rank) reap() {
	if !r.reapedElsewhere.Load() {
		_ = reap(unix.P_PID, int(r.pid.Load()))
	}
}

// Close kills the ranks that still run, closes all streams, including those that descendants hold open, and reaps.
// When it returns, no thread, goroutine or descriptor of the group is left. Do not call it from a Sink's method. It
// returns an error if ranks did not die within two seconds of SIGKILL.
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
		left += s.unkilled
	}
	g.shared.close()
	if left > 0 {
		return fmt.Errorf("close: %d ranks did not exit within %v of SIGKILL: they hang in the kernel", left, closeTimeout)
	}
	return nil
}
