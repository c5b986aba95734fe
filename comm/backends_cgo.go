//go:build cgo

package comm

import (
	"context"
	"errors"
	"fmt"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
)

// open joins the back end with this name. Every group joins the CPU back end first. The ranks exchange their GPU
// information through it, and it reports late and dead ranks, which NCCL does not.
func open(ctx context.Context, name string, g *Group, exchange backend.Exchange) (backend.Backend, error) {
	switch name {
	case "auto", "cpu", "nccl":
	default:
		return nil, fmt.Errorf("%q is no back end: take cpu, nccl or auto", name)
	}
	gpu := &guarded{}
	gpu.look(name, g.device)
	onCPUs, err := cpu.Join(ctx, cpu.Config{
		Rank: g.rank, Ranks: g.size, Exchange: exchange, Timeout: g.timeout, Key: g.key, Near: g.near, Host: g.host,
		Job: g.job, Note: gpu.note(),
	})
	if err != nil || name == "cpu" {
		return onCPUs, err
	}
	gpu.cpu = onCPUs
	found, err := gpu.find(name, g)
	if err != nil {
		return nil, errors.Join(err, onCPUs.Close())
	}
	if !found {
		return onCPUs, nil
	}
	if err := gpu.join(ctx, g, exchange); err != nil {
		return nil, errors.Join(err, onCPUs.Close())
	}
	return gpu, nil
}

// allocate returns memory that the host's ranks share. caller is the function that error messages name.
func (g *Group) allocate(ctx context.Context, caller string, size int) (memory, error) {
	b, ok := g.back.(*cpu.Backend)
	if !ok {
		return nil, fmt.Errorf("%s: the %s back end has no shared memory: %w", caller, g.back.Name(), errors.ErrUnsupported)
	}
	if b.Regions() == cpu.MaxRegions {
		return nil, &ArgumentError{caller, fmt.Sprintf("this group has %d pieces of memory already, as many as it can: "+
			"free some", cpu.MaxRegions)}
	}
	region, err := b.Allocate(ctx, caller, size)
	if err != nil {
		return nil, err
	}
	return region, nil
}
