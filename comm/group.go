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

// Group is this rank's membership in a group of ranks. It is safe for concurrent use: calls run one after the other. On
// a nil *Group, collectives return an [ArgumentError].
type Group struct {
	rank, size int
	back       backend.Backend
	timeout    time.Duration
	device     int      // this rank's GPU, -1 if unspecified
	meeting    *meeting // the meeting of all ranks; in groups that Split made, that of their members
	key        []byte   // authenticates connections between hosts
	near       string   // the store's address, which selects the network between hosts
	job        []int    // each rank's number in the job, for errors; nil if the numbers are the same
	host       string   // set by tests: ranks with different names count as ranks on different hosts

	onCPUs *cpu.Backend // back if it is the CPU back end, else nil

	mu     sync.Mutex // held during a call
	call   backend.Call
	failed error
	closed bool

	queue queue
}

// Rank returns this process's number in the group, from 0 to Size-1. It returns -1 for a nil *Group.
func (g *Group) Rank() int {
	if g == nil {
		return -1
	}
	return g.rank
}

// Size returns the number of ranks. It returns 0 for a nil *Group.
func (g *Group) Size() int {
	if g == nil {
		return 0
	}
	return g.size
}

// Backend returns the name of the back end: "cpu" or "nccl". It returns "" for a nil *Group.
func (g *Group) Backend() string {
	if g == nil {
		return ""
	}
	return g.back.Name()
}

// jobRank returns the job's number of a rank of the group.
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

// do runs the call after all calls in the queue.
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

// run runs one call. The caller holds mu.
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

// through passes the call to the back end. It calls the CPU back end through its concrete type, so that the compiler
// can keep the call on the stack.
func (g *Group) through(ctx context.Context, c *backend.Call) error {
	if g.onCPUs != nil {
		return g.onCPUs.Run(ctx, c)
	}
	g.call = *c
	err := g.back.Run(ctx, &g.call)
	g.call = backend.Call{}
	return err
}

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

// ended records that a call failed. The caller holds mu.
func (g *Group) ended(err error) error {
	var refused *ArgumentError // all ranks refuse the call before they send anything
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		g.failed = err
	}
	return fmt.Errorf("comm: %w", err)
}

// Close leaves the group after its asynchronous calls are done. Ranks that still wait for this rank get an error.
//
// Close does not wait for other ranks. Call [Barrier] first if they may still need this rank. Other ranks can still
// receive the data that this rank sent. Between hosts, this is certain only if this rank received all data sent to it.
// Close does nothing if the group is closed already or nil.
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

// checkRank rejects a rank that is not in the group.
func (g *Group) checkRank(kind backend.Kind, what string, rank int) error {
	if g == nil {
		return noGroup(kind.String())
	}
	if rank < 0 || rank >= g.size {
		return wrong(kind, "%s %d is not one of the ranks 0 to %d", what, rank, g.size-1)
	}
	return nil
}
