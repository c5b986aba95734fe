//go:build cgo

package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
	"gorun/comm/internal/nccl"
)

// guarded runs calls with NCCL or RCCL and keeps a group on the CPU back end for errors. Ranks that are about to make
// different calls get an error instead of a hang. Late ranks are named, and the death of a rank ends the others' calls.
type guarded struct {
	cpu     *cpu.Backend
	library *nccl.Library
	own     sight
	why     error // the reason why this rank has no GPU; nil if it has one
	device  int
	nccl    *nccl.Backend
}

// sight is a rank's GPU information, which the ranks exchange when they join.
type sight struct {
	Devices int // GPUs visible to the process; 0 if the libraries are missing
	Device  int // this rank's GPU, -1 if unspecified
}

// look opens the libraries. With "auto" it does not open them if no GPU driver is loaded, so that Join stays fast.
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

// note encodes the GPU information for the exchange.
func (b *guarded) note() string { return fmt.Sprintf("gpus %d %d", b.own.Devices, b.own.Device) }

// deviceOf parses a rank's note and returns the GPU of local rank local. It returns an error if the rank has no GPU of
// its own.
func deviceOf(note string, local int) (device int, err error) {
	var s sight
	if _, err := fmt.Sscanf(note, "gpus %d %d", &s.Devices, &s.Device); err != nil {
		return 0, fmt.Errorf("what it says of its GPUs, %q: %w", note, err)
	}
	switch device = s.Device; {
	case s.Devices == 1:
		return 0, nil // --isolate-gpus, or a host with one GPU
	case device < 0:
		device = local
	}
	if device >= s.Devices {
		return device, fmt.Errorf("local rank %d needs a GPU of its own, and this process sees %d", device, s.Devices)
	}
	return device, nil
}

// find reports whether every rank has a GPU of its own and the libraries, which NCCL needs. With "nccl" a missing one
// is an error that names the ranks and the cause.
func (b *guarded) find(name string, g *Group) (bool, error) {
	var without []int
	for rank, note := range b.cpu.Notes() {
		device, err := deviceOf(note, b.cpu.Local(rank))
		if err != nil {
			without = append(without, rank)
		}
		if rank == g.rank {
			b.device, g.device = device, device // Split passes it to new groups
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

// driverLoaded reports whether a GPU driver of NVIDIA (in WSL too) or AMD is loaded, based on its device files.
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
		Rank: g.rank, Ranks: g.size, Device: b.device, Timeout: g.timeout, Exchange: exchange, Failed: b.cpu.Failed,
	})
	b.nccl = joined
	return err
}

func (b *guarded) Name() string { return "nccl" }

// Run runs the call when all ranks are about to make the same one.
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
	err := b.nccl.Run(ctx, c)
	if err != nil {
		b.cpu.Abort(err) // the other ranks wait in NCCL
	}
	return err
}

// MonitoredBarrier runs on the CPU back end, which can name late ranks.
func (b *guarded) MonitoredBarrier(ctx context.Context, limit time.Duration) error {
	return b.cpu.MonitoredBarrier(ctx, limit)
}

func (b *guarded) Abort(reason error) {
	b.cpu.Abort(reason)
	b.nccl.Abort(reason)
}

func (b *guarded) Close() error {
	if err := b.cpu.Failed(); err != nil {
		b.nccl.Abort(err) // else NCCL would wait for the ranks that are lost
	}
	return errors.Join(b.nccl.Close(), b.cpu.Close())
}

// onDevice allocates memory on this rank's GPU.
func (g *Group) onDevice(size int) (deviceMemory, error) {
	b, ok := g.back.(*guarded)
	if !ok {
		return nil, fmt.Errorf("the %s back end has no GPU: %w", g.back.Name(), errors.ErrUnsupported)
	}
	return b.library.Alloc(b.device, size)
}
