//go:build !cgo

package comm

import (
	"context"

	"gorun/comm/internal/backend"
)

func open(context.Context, string, *Group, backend.Exchange) (backend.Backend, error) {
	return nil, backend.ErrNoCgo
}

func (g *Group) onDevice(int) (deviceMemory, error) { return nil, backend.ErrNoCgo }

func (g *Group) allocate(context.Context, string, int) (memory, error) { return nil, backend.ErrNoCgo }
