//go:build cgo

package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
	"gorun/comm/internal/nccl"
)

// guarded runs calls by NCCL or RCCL, with a group on the CPUs beside it: ranks that are about to make different calls get an error instead of
// a hang, late ones are named, and a rank's death ends the others' calls.
type guarded struct {
	cpu     *cpu.Backend
	library *nccl.Library
	device  int

	mu   sync.Mutex
	nccl *nccl.Backend
}

// find decides with the other ranks whether NCCL can be used: every rank needs a GPU of its own and the libraries. With "nccl" it is an error
// where one has not, which names who and why.
func (b *guarded) find(ctx context.Context, name string, g *Group) (bool, error) {
	if b.device = g.device; g.device < 0 {
		b.device = b.cpu.Local()
	}
	why := b.look(name)
	g.device = b.device // groups made by Split keep it
	mine, all := []int32{0}, make([]int32, g.size)
	if why == nil {
		mine[0] = 1
	}
	err := b.cpu.Run(ctx, &backend.Call{Kind: backend.AllGather, DType: backend.Int32, Count: 1, Send: pointer(mine), Recv: pointer(all)})
	if err != nil {
		return false, err
	}
	b.cpu.Uncounted()
	var without []int
	for rank, has := range all {
		if has == 0 {
			without = append(without, rank)
		}
	}
	switch {
	case len(without) == 0:
		return true, nil
	case name == "auto":
		return false, nil
	case why != nil:
		return false, fmt.Errorf("the nccl back end: %w", why)
	}
	return false, fmt.Errorf("the nccl back end: %s cannot use it", backend.Ranks(without))
}

// look opens the libraries and says why they can't be used here. It costs nothing where no driver of a GPU is loaded.
func (b *guarded) look(name string) error {
	if name == "auto" && !driverLoaded() {
		return errors.New("no GPU's driver is loaded")
	}
	library, err := nccl.Open(nccl.Options{})
	if err != nil {
		return err
	}
	devices, err := library.Devices()
	if err != nil {
		return err
	}
	if devices == 1 {
		b.device = 0 // --isolate-gpus, or a host with one
	}
	if b.device >= devices {
		return fmt.Errorf("local rank %d needs a GPU of its own, and this process sees %d", b.device, devices)
	}
	b.library = library
	return nil
}

// driverLoaded tells by the devices that drivers of NVIDIA (also within WSL) and AMD make.
func driverLoaded() bool {
	for _, path := range []string{"/dev/nvidiactl", "/dev/dxg", "/dev/kfd"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

func (b *guarded) join(ctx context.Context, g *Group, exchange backend.Exchange) error {
	joined, err := b.library.Join(ctx, nccl.Config{
		Rank: g.rank, Ranks: g.size, Device: b.device, Timeout: g.timeout, Exchange: exchange,
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nccl = joined
	return nil
}

// lost ends what NCCL would wait for in vain.
func (b *guarded) lost(rank int) {
	b.mu.Lock()
	joined := b.nccl
	b.mu.Unlock()
	if joined != nil {
		joined.Abort(&PeerError{Rank: rank, How: "its process ended"})
	}
}

// Name is "nccl".
func (b *guarded) Name() string { return "nccl" }

// Run makes the call once all ranks are about to make it.
func (b *guarded) Run(ctx context.Context, c *backend.Call) error {
	if c.Op.Bitwise() {
		return fmt.Errorf("%s: NCCL has no reduction %v: %w", c.Kind, c.Op, errors.ErrUnsupported)
	}
	switch c.Kind {
	case backend.Send, backend.Recv, backend.SendRecv:
	default:
		if err := b.cpu.Agree(ctx, c); err != nil {
			b.nccl.Abort(err)
			return err
		}
	}
	return b.nccl.Run(ctx, c)
}

// MonitoredBarrier is the one of the CPUs, which knows who is late.
func (b *guarded) MonitoredBarrier(ctx context.Context, limit time.Duration) error {
	return b.cpu.MonitoredBarrier(ctx, limit)
}

// Abort fails the group for everybody.
func (b *guarded) Abort(reason error) {
	b.cpu.Abort(reason)
	b.nccl.Abort(reason)
}

// Close frees the rank.
func (b *guarded) Close() error { return errors.Join(b.nccl.Close(), b.cpu.Close()) }

// onDevice gets memory of this rank's GPU.
func (g *Group) onDevice(size int) (deviceMemory, error) {
	b, ok := g.back.(*guarded)
	if !ok {
		return nil, fmt.Errorf("the %s back end has no GPU: %w", g.back.Name(), errors.ErrUnsupported)
	}
	return b.library.Alloc(b.device, size)
}
