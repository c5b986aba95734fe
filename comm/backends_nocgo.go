//go:build !cgo

package comm

import (
	"context"
	"errors"
	"time"

	"gorun/comm/internal/backend"
)

var errNoCgo = errors.New(
	"this program was built without cgo, which collectives need: build it with CGO_ENABLED=1 and a C compiler")

func open(context.Context, string, *Group, backend.Exchange) (backend.Backend, error) {
	return nil, errNoCgo
}

func monitor(context.Context, backend.Backend, time.Duration) error { return errNoCgo }

func (g *Group) onDevice(int) (deviceMemory, error) { return nil, errNoCgo }

func (g *Group) allocate(context.Context, string, int) (memory, error) { return nil, errNoCgo }
