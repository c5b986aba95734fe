//go:build cgo

package comm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
)

// open joins the back end of that name.
func open(ctx context.Context, name string, g *Group, _ int, exchange backend.Exchange) (backend.Backend, error) {
	switch name {
	case "auto", "cpu":
		return cpu.Join(ctx, cpu.Config{Rank: g.rank, Ranks: g.size, Exchange: exchange, Timeout: g.timeout, Key: g.key, Near: g.near})
	}
	return nil, fmt.Errorf("%q is no back end: take cpu, nccl or auto", name)
}

// monitor is a barrier with a limit of its own.
func monitor(ctx context.Context, b backend.Backend, limit time.Duration) error {
	if m, ok := b.(interface{ MonitoredBarrier(time.Duration) error }); ok {
		return m.MonitoredBarrier(limit)
	}
	return fmt.Errorf("the %s back end has no monitored barrier: %w", b.Name(), errors.ErrUnsupported)
}

// allocate gets memory that the host's ranks share.
func (g *Group) allocate(ctx context.Context, size int) (memory, error) {
	b, ok := g.back.(*cpu.Backend)
	if !ok {
		return nil, fmt.Errorf("Allocate: the %s back end has no shared memory: %w", g.back.Name(), errors.ErrUnsupported)
	}
	region, err := b.Allocate(ctx, size)
	if err != nil {
		return nil, err
	}
	return region, nil
}
