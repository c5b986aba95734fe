package process

import (
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// spawner is a thread that starts ranks and then reads what these ranks write
// and notices their end. It is one thread from its first rank to the group's
// end, because the kernel kills a rank when the thread that started it ends.
type spawner struct {
	g    *Group
	ep   int // epoll of this thread alone
	wake int // eventfd in ep: something was posted

	ranks  []*rank             // all that were started here, nil: reaped; epoll's tags are indices
	alive  int                 // of these, not yet Exited
	parked [numStreams][]*rank // streams taken out of ep while paused

	child   kernel.Child
	args    scratch
	last    origin // of the rank that was started last
	buf     [64 << 10]byte
	events  [64]syscall.EpollEvent
	closing bool

	mu     sync.Mutex    // guards inbox and closed
	inbox  []func()      // what others want to have done on the thread
	closed bool          // ep and wake are no more
	done   chan struct{} // closed when the thread is about to end
	left   int           // ranks that outlived close; valid after done
}

// start is the ranks of one Start, which spawners take one after the other.
type start struct {
	common    Common
	image     *image
	ranks     []rank
	launcher  int
	openFiles *unix.Rlimit

	next atomic.Int64
	busy sync.WaitGroup

	failed atomic.Bool
	mu     sync.Mutex
	first  *StartError // of the lowest index
	index  int
}

// take returns the index of the next rank to start, or false when there is none
// or one has failed.
func (j *start) take() (int, bool) {
	if j.failed.Load() {
		return 0, false
	}
	i := int(j.next.Add(1)) - 1
	return i, i < len(j.ranks)
}

func (j *start) fail(i int, err *StartError) {
	j.failed.Store(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first == nil || i < j.index {
		j.first, j.index = err, i
	}
}

func (j *start) err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first == nil {
		return nil
	}
	return j.first
}

// drainEvery is the number of ranks that a spawner starts between two looks at
// the ranks it has. Looking often gives descriptors back early.
const drainEvery = 4

// newSpawner makes a spawner whose thread is not running yet.
func newSpawner(g *Group) (*spawner, error) {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		syscall.Close(ep)
		return nil, err
	}
	s := &spawner{g: g, ep: ep, wake: wake, done: make(chan struct{})}
	if e := s.watch(int32(wake), wakeTag); e != 0 {
		syscall.Close(ep)
		syscall.Close(wake)
		return nil, e
	}
	return s, nil
}

// post has something done on the thread, and wakes it.
func (s *spawner) post(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.inbox = append(s.inbox, do)
	one := [8]byte{1} // little-endian, as both architectures are
	syscall.Write(s.wake, one[:])
}

// run is the thread. It stays locked, so that the thread ends with it.
func (s *spawner) run() {
	runtime.LockOSThread()
	defer close(s.done)
	s.child.Mask = threadMask()
	for !s.closing {
		s.poll(forever)
		s.obey()
	}
	s.close()
}

// threadMask returns the calling thread's signal mask: as the user had it, since
// Go threads inherit it, but for the synchronous signals, SIGCHLD and SIGPROF,
// which the runtime unblocks for good.
func threadMask() (mask uint64) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, 0, uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	return mask
}

// obey does what was posted, one after the other: what starts ranks obeys meanwhile. It must follow every poll, which
// takes the wake-up away.
func (s *spawner) obey() {
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

// forget lets go of a rank that was reaped.
func (s *spawner) forget(r *rank) {
	r.reaped = true
	s.release(r)
	s.ranks[r.index] = nil
}

// share starts this spawner's share of j, looking after its ranks meanwhile.
func (s *spawner) share(j *start) {
	defer j.busy.Done()
	if group := j.common.Cgroup; group != nil {
		_ = group.Enter() // without it less can be found, after a SIGKILL only
		defer group.Leave()
	}
	for n := 1; ; n++ {
		i, ok := j.take()
		if !ok {
			return
		}
		if err := s.start(j, &j.ranks[i]); err != nil {
			j.fail(i, err)
			return
		}
		if n%drainEvery == 0 {
			s.poll(0)
			s.obey()
		}
	}
}

// closeWait is how long Close waits for ranks that it killed. A process that
// hangs in the kernel does not even die of SIGKILL.
const closeWait = 2 * time.Second

// close kills the ranks that still run, closes all streams and reaps.
func (s *spawner) close() {
	for _, r := range s.kept() {
		if !r.exited {
			syscall.Kill(-int(r.pid.Load()), syscall.SIGKILL)
		}
	}
	for end := time.Now().Add(closeWait); s.alive > 0; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		s.poll(int(left/time.Millisecond) + 1)
		s.obey()
	}
	s.left = s.alive
	for _, r := range s.kept() {
		s.release(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	syscall.Close(s.wake)
	syscall.Close(s.ep)
}

// kept are the ranks that were started here and have not been reaped.
func (s *spawner) kept() iter.Seq2[int, *rank] {
	return func(yield func(int, *rank) bool) {
		for i, r := range s.ranks {
			if r != nil && !yield(i, r) {
				return
			}
		}
	}
}

// release gives back what is left of r: streams that descendants hold open, and
// its pid.
func (s *spawner) release(r *rank) {
	for stream := range r.end {
		if r.end[stream] < 0 {
			continue
		}
		if !s.g.paused[stream].Load() {
			s.drain(r, stream)
		}
		s.endStream(r, stream)
	}
	if in := r.input.Load(); in != nil {
		in.abandon()
	}
	s.closeSocket(r)
	if r.pidfd >= 0 {
		syscall.Close(int(r.pidfd))
	}
	if r.exited && !r.reaped {
		r.reap()
	}
}
