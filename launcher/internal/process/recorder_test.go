package process_test

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/launcher/internal/process"
)

// patience is the time that a busy machine may need for anything in these tests.
const patience = 2 * time.Minute

// story contains a Sink's calls about one rank.
type story struct {
	unbound  process.BindError
	pid      int
	thread   int // the thread that called
	out      [3][]byte
	closed   [3]bool
	exited   bool
	socketFD int // the descriptor; 0: no call
	status   process.Status
	at       time.Time
	disorder []string // calls that came too early or too late
}

// recorder is a Sink that records its calls.
type recorder struct {
	mu           sync.Mutex
	changed      *sync.Cond
	ranks        map[int]*story
	onOutput     func(id, stream int) // called without the lock; set before the start
	beforeOutput func(stream int)     // the same, before the call is recorded
}

func newRecorder() *recorder {
	r := &recorder{ranks: map[int]*story{}}
	r.changed = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) tell(id int, what string, change func(*story)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ranks[id]
	if s == nil {
		s = &story{thread: syscall.Gettid()}
		r.ranks[id] = s
		if what != "started" {
			s.disorder = append(s.disorder, what+" before started")
		}
	}
	if s.thread != syscall.Gettid() {
		s.disorder = append(s.disorder, what+" on another thread")
	}
	change(s)
	r.changed.Broadcast()
}

func (r *recorder) Started(id, pid int) {
	r.tell(id, "started", func(s *story) { s.pid = pid })
}

func (r *recorder) BindFailed(id int, b process.BindError) {
	r.tell(id, "unbound", func(s *story) { s.unbound = b })
}

func (r *recorder) Output(id, stream int, p []byte) {
	if r.beforeOutput != nil {
		r.beforeOutput(stream)
	}
	r.tell(id, "output", func(s *story) {
		if s.closed[stream] || len(p) == 0 {
			s.disorder = append(s.disorder, fmt.Sprintf("output of %d bytes, closed %v", len(p), s.closed[stream]))
		}
		s.out[stream] = append(s.out[stream], p...)
	})
	if r.onOutput != nil {
		r.onOutput(id, stream)
	}
}

func (r *recorder) Closed(id, stream int) {
	r.tell(id, "closed", func(s *story) {
		if s.closed[stream] {
			s.disorder = append(s.disorder, "closed twice")
		}
		s.closed[stream] = true
	})
}

func (r *recorder) Exited(id int, status process.Status, at time.Time) {
	r.tell(id, "exited", func(s *story) {
		if s.exited {
			s.disorder = append(s.disorder, "exited twice")
		}
		s.exited, s.status, s.at = true, status, at
	})
}

func (r *recorder) SocketReadable(id, fd int) {
	r.tell(id, "spoke", func(s *story) {
		if s.socketFD != 0 {
			s.disorder = append(s.disorder, "spoke twice")
		}
		s.socketFD = fd
	})
}

// String describes a rank, without its output.
func (s *story) String() string {
	return fmt.Sprintf("pid %d, %d bytes and %d, closed %v, exited %v", s.pid, len(s.out[1]), len(s.out[2]), s.closed,
		s.exited)
}

// until waits for a rank to reach a state.
func (r *recorder) until(id int, reached func(*story) bool) {
	late := time.AfterFunc(patience, func() { panic(fmt.Sprintf("rank %d: nothing happened: %v", id, r.ranks[id])) })
	defer late.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.ranks[id] == nil || !reached(r.ranks[id]) {
		r.changed.Wait()
	}
}

// await waits until a rank and its pumped streams have ended.
func (r *recorder) await(rank process.Rank) {
	r.until(rank.ID, func(s *story) bool {
		return s.exited && s.closed[1] == pumped(rank.Stdout) && s.closed[2] == (rank.Stderr.Kind == process.Pipe)
	})
}

func pumped(s process.Stream) bool { return s.Kind == process.Pipe || s.Kind == process.PTY }

func (r *recorder) untilOutput(id, stream, size int) string {
	r.until(id, func(s *story) bool { return len(s.out[stream]) >= size })
	return r.text(id)[stream-1]
}

func (r *recorder) text(id int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []string{string(r.ranks[id].out[1]), string(r.ranks[id].out[2])}
}

func (r *recorder) story(id int) story {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.ranks[id]
}

// forget frees an ID for another rank.
func (r *recorder) forget(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ranks, id)
}

// group is a Group under test that must leave nothing.
type group struct {
	*process.Group
	*recorder
	t *testing.T
}

func newGroup(t *testing.T, threads int) group {
	t.Helper()
	before := openFiles(t)
	rec := newRecorder()
	g := process.NewGroup(rec)
	g.BoundThreads(threads)
	t.Cleanup(func() {
		require.NoError(t, g.Close())
		for id, s := range rec.ranks {
			assert.Empty(t, s.disorder, "rank %d", id)
		}
		goleak.VerifyNone(t)
		assert.Eventually(t, func() bool {
			return openFiles(t) <= before
		}, patience, time.Millisecond, "descriptors are left")
	})
	return group{g, rec, t}
}

// openFiles returns the number of open descriptors. It always includes those of the runtime's poller.
func openFiles(t *testing.T) int {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	r.Close()
	w.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// run starts ranks of this binary and waits for their end.
func (g group) run(argv []string, ranks ...process.Rank) {
	g.t.Helper()
	g.start(argv, ranks...)
	for _, r := range ranks {
		g.await(r)
	}
}

func (g group) start(argv []string, ranks ...process.Rank) {
	g.t.Helper()
	require.NoError(g.t, g.Start(process.Common{Env: os.Environ(), Path: self, Argv: argv}, ranks))
}

// piped returns a rank whose output is read.
func piped(id int) process.Rank {
	return process.Rank{ID: id, Stdout: process.Stream{Kind: process.Pipe}, Stderr: process.Stream{Kind: process.Pipe}}
}

func descriptor(fd int) process.Stream { return process.Stream{Kind: process.FD, FD: fd} }
