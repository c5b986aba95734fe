package process

import (
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// spawner starts ranks, reads their output and reaps their exits, all on one locked thread. The thread lives until
// the group is closed: the parent death signal of a rank is tied to the thread that started it.
type spawner struct {
	g    *Group
	ep   int // epoll of this thread alone
	wake int // eventfd in ep, written by post

	// Owned by the thread.
	ranks   []*rank             // index is the epoll tag; nil: dropped
	alive   int                 // ranks that have not exited
	parked  [numStreams][]*rank // ranks whose paused stream was taken out of ep
	child   kernel.Child
	args    scratch
	buf     [64 << 10]byte
	events  [64]unix.EpollEvent
	closing bool

	mu     sync.Mutex // guards inbox and closed
	inbox  []func()   // to run on the thread
	closed bool       // ep and wake are closed

	done     chan struct{} // closed when the thread has ended
	unkilled int           // ranks that SIGKILL did not end within closeTimeout; valid after done
}

// batch is the ranks of one call of Group.Start. Spawners take them one by one.
type batch struct {
	common    Common
	image     *image
	ranks     []rank
	launcher  int
	openFiles *unix.Rlimit

	next   atomic.Int64
	failed atomic.Bool // stop starting more
	busy   sync.WaitGroup
}

// take returns the next rank to start; nil if none is left or a start has failed.
func (b *batch) take() *rank {
	if b.failed.Load() {
		return nil
	}
	if i := int(b.next.Add(1)) - 1; i < len(b.ranks) {
		return &b.ranks[i]
	}
	return nil
}

// err returns the failure of the lowest rank. Call it after busy.Wait.
func (b *batch) err() error {
	for i := range b.ranks {
		if err := b.ranks[i].startErr; err != nil {
			return err
		}
	}
	return nil
}

// pollEvery is the number of ranks started between two polls. Frequent polls release the descriptors of ranks that
// have exited.
const pollEvery = 4

// newSpawner returns a spawner whose thread does not run yet.
func newSpawner(g *Group) (*spawner, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, err
	}
	s := &spawner{g: g, ep: ep, wake: wake, done: make(chan struct{})}
	if err := s.watch(int32(wake), wakeTag); err != nil {
		unix.Close(ep)
		unix.Close(wake)
		return nil, err
	}
	return s, nil
}

// post queues do for the thread and wakes it.
func (s *spawner) post(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.inbox = append(s.inbox, do)
	one := [8]byte{1} // little-endian on both architectures
	_, _ = unix.Write(s.wake, one[:])
}

// run is the thread's main loop. It never unlocks the thread, so the thread ends with it.
func (s *spawner) run() {
	ReserveStack()
	runtime.LockOSThread()
	defer close(s.done)
	s.child.Mask = signalMask()
	for !s.closing {
		s.poll(forever)
		s.runInbox()
	}
	s.close()
}

// signalMask returns the calling thread's signal mask. It is the user's, as Go threads inherit it, except for
// synchronous signals, SIGCHLD and SIGPROF, which the runtime has unblocked.
func signalMask() uint64 {
	var mask unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask)
	return mask.Val[0]
}

// runInbox runs what was posted, in order; startRanks calls it in between, too. It must follow every poll, which
// consumes the wake-up.
func (s *spawner) runInbox() {
	for {
		s.mu.Lock()
		if len(s.inbox) == 0 {
			s.mu.Unlock()
			return
		}
		do := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.mu.Unlock()
		do()
	}
}

// drop releases a rank that Group.Reap has reaped.
func (s *spawner) drop(r *rank) {
	r.reaped = true
	s.release(r)
	s.ranks[r.index] = nil
}

// startRanks starts this spawner's share of b and serves its other ranks meanwhile.
func (s *spawner) startRanks(b *batch) {
	defer b.busy.Done()
	if group := b.common.Cgroup; group != nil {
		_ = group.Enter() // if it fails, orphans are harder to find after a SIGKILL
		defer group.Leave()
	}
	for n := 1; ; n++ {
		r := b.take()
		if r == nil {
			return
		}
		if r.startErr = s.start(b, r); r.startErr != nil {
			b.failed.Store(true)
			return
		}
		if n%pollEvery == 0 {
			s.poll(0)
			s.runInbox()
		}
	}
}

// closeTimeout bounds the wait for killed ranks. A process in uninterruptible sleep does not die of SIGKILL.
const closeTimeout = 2 * time.Second

// close kills the ranks that still run, closes all streams and reaps.
func (s *spawner) close() {
	for r := range s.unreaped() {
		if !r.exited {
			unix.Kill(-int(r.pid.Load()), unix.SIGKILL)
		}
	}
	for deadline := time.Now().Add(closeTimeout); s.alive > 0; {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		s.poll(int(left/time.Millisecond) + 1)
		s.runInbox()
	}
	s.unkilled = s.alive
	for r := range s.unreaped() {
		s.release(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	unix.Close(s.wake)
	unix.Close(s.ep)
}

// unreaped iterates over the ranks that this spawner has started and not dropped.
func (s *spawner) unreaped() iter.Seq[*rank] {
	return func(yield func(*rank) bool) {
		for _, r := range s.ranks {
			if r != nil && !yield(r) {
				return
			}
		}
	}
}

// release closes r's descriptors, including streams that descendants still hold open, and frees its pid.
func (s *spawner) release(r *rank) {
	for stream := range r.end {
		if r.end[stream] < 0 {
			continue
		}
		s.drain(r, stream) // also a paused one: what ended ranks wrote must not be lost
		s.endStream(r, stream)
	}
	if in := r.input.Load(); in != nil {
		in.abandon()
	}
	s.closeSocket(r)
	if r.pidfd >= 0 {
		unix.Close(int(r.pidfd))
	}
	if r.exited && !r.reaped {
		r.reap()
	}
}
