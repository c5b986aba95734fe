package comm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
)

// Group is this rank's membership in a group of ranks. Its functions can be called by several goroutines: calls run one
// after the other.
type Group struct {
	rank, size int
	back       backend.Backend
	timeout    time.Duration
	device     int      // the GPU of this rank, -1 where nobody said
	meeting    *meeting // where the world met, nil in groups made by Split
	key        []byte   // for connections between hosts
	near       string   // the store's address, by which the hosts' networks are chosen
	job        []int    // by rank: its number in the job, for errors; nil where that is the same
	host       string   // tests: ranks that give different names count as such on different hosts

	onCPUs *cpu.Backend // back, where it is that

	mu     sync.Mutex // held while a call runs
	call   backend.Call
	failed error
	closed bool

	queue queue
}

// Rank is this process's number in the group, 0 to Size-1; -1 in a nil *Group.
func (g *Group) Rank() int {
	if g == nil {
		return -1
	}
	return g.rank
}

// Size is the number of ranks; 0 in a nil *Group.
func (g *Group) Size() int {
	if g == nil {
		return 0
	}
	return g.size
}

// Backend is what runs the group's calls: "cpu" or "nccl"; "" in a nil *Group.
func (g *Group) Backend() string {
	if g == nil {
		return ""
	}
	return g.back.Name()
}

// jobRank is a rank's number in the job.
func (g *Group) jobRank(rank int) int {
	if g.job == nil {
		return rank
	}
	return g.job[rank]
}

func (g *Group) String() string {
	if g == nil {
		return "no group"
	}
	return fmt.Sprintf("rank %d of %d (%s)", g.rank, g.size, g.back.Name())
}

// do makes the call that fill describes, after those that were begun before it.
func (g *Group) do(ctx context.Context, c *backend.Call) error {
	if g == nil {
		return noGroup(c.Kind.String())
	}
	if g.queue.busy() {
		return g.start(ctx, *c).Wait()
	}
	g.mu.Lock()
	err := g.run(ctx, c)
	g.mu.Unlock()
	return err
}

// run makes one call; mu is held.
func (g *Group) run(ctx context.Context, c *backend.Call) error {
	if g.closed || g.failed != nil {
		return g.usable()
	}
	err := g.through(ctx, c)
	if err == nil {
		return nil
	}
	return g.ended(err)
}

// through makes the call by the back end. The CPUs' is called by its own type, so that the compiler sees that the call
// stays on the stack.
func (g *Group) through(ctx context.Context, c *backend.Call) error {
	if g.onCPUs != nil {
		return g.onCPUs.Run(ctx, c)
	}
	g.call = *c
	err := g.back.Run(ctx, &g.call)
	g.call = backend.Call{}
	return err
}

// errClosed is ErrClosed as calls return it.
var errClosed = fmt.Errorf("comm: %w", ErrClosed)

func (g *Group) usable() error {
	switch {
	case g.closed:
		return errClosed
	case g.failed != nil:
		return fmt.Errorf("comm: the group failed before: %w", g.failed)
	}
	return nil
}

// ended notes how a call ended; mu is held.
func (g *Group) ended(err error) error {
	var refused *ArgumentError // by this rank as by all others, before anything was sent
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		g.failed = err
	}
	return fmt.Errorf("comm: %w", err)
}

// Close leaves the group: work that was begun is finished first, and ranks that still wait for this one get an error.
// It waits for nobody: call [Barrier] before where others may still need this rank. What this rank sent can still be
// received; between hosts that is sure only where this rank received all that was sent to it. Closing again, or a nil
// *Group, does nothing.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.queue.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	err := g.back.Close()
	if g.meeting != nil {
		err = errors.Join(err, g.meeting.close())
	}
	return err
}

// checkRank refuses a rank that the group doesn't have.
func (g *Group) checkRank(kind backend.Kind, what string, rank int) error {
	if g == nil {
		return noGroup(kind.String())
	}
	if rank < 0 || rank >= g.size {
		return wrong(kind, "%s %d is not one of the ranks 0 to %d", what, rank, g.size-1)
	}
	return nil
}
