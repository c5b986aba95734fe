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

// guarded runs calls by NCCL or RCCL, with a group on the CPUs beside it: ranks that are about to make different calls
// get an error instead of a hang, late ones are named, and a rank's death ends the others' calls.
type guarded struct {
	cpu     *cpu.Backend
	library *nccl.Library
	own     sight
	why     error // this rank has no GPU
	device  int
	reader  backend.Reader

	mu   sync.Mutex
	nccl *nccl.Backend
}

// sight is what a rank tells the others of its GPUs while they meet.
type sight struct {
	Devices int // that its process sees; 0 also where the libraries are not there
	Device  int // of this rank, -1 where nobody said
}

// look opens the libraries. It costs nothing where no driver of a GPU is loaded and nobody insists.
func (b *guarded) look(name string, device int) {
	b.own = sight{Device: device}
	if name == "cpu" {
		return
	}
	if name == "auto" && !driverLoaded() {
		b.why = errors.New("no GPU's driver is loaded")
		return
	}
	library, err := nccl.Open()
	if err == nil {
		b.library = library
		b.own.Devices, err = library.Devices()
	}
	b.why = err
}

// note is the sight as the ranks exchange it.
func (b *guarded) note() string { return fmt.Sprintf("gpus %d %d", b.own.Devices, b.own.Device) }

// deviceOf is the GPU of the local-th rank of a host that said this, with an error where it has none.
func deviceOf(note string, local int) (device int, err error) {
	var s sight
	if _, err := fmt.Sscanf(note, "gpus %d %d", &s.Devices, &s.Device); err != nil {
		return 0, fmt.Errorf("what it says of its GPUs, %q: %w", note, err)
	}
	switch device = s.Device; {
	case s.Devices == 1:
		return 0, nil // --isolate-gpus, or a host with one
	case device < 0:
		device = local
	}
	if device >= s.Devices {
		return device, fmt.Errorf("local rank %d needs a GPU of its own, and this process sees %d", device, s.Devices)
	}
	return device, nil
}

// find says whether NCCL can be used, by what all ranks told: every rank needs a GPU of its own and the libraries. With
// "nccl" it is an error where one has not, which names who and why.
func (b *guarded) find(name string, g *Group) (bool, error) {
	var without []int
	for rank, note := range b.cpu.Notes() {
		device, err := deviceOf(note, b.cpu.Local(rank))
		if err != nil {
			without = append(without, rank)
		}
		if rank == g.rank {
			b.device, g.device = device, device // groups made by Split keep it
			if b.why == nil {
				b.why = err
			}
		}
	}
	switch {
	case len(without) == 0:
		return true, nil
	case name == "auto":
		return false, nil
	case b.why != nil:
		return false, fmt.Errorf("the nccl back end: %w", b.why)
	}
	return false, fmt.Errorf("the nccl back end: %s cannot use it", backend.Ranks(without))
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
		joined.Abort(b.reader.For(&PeerError{Rank: rank, How: "its process ended"}))
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
