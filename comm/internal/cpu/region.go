//go:build cgo

package cpu

// #include "engine.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"gorun/comm/internal/backend"
)

// Region is memory that all ranks of the host map: each owns one part, and calls on buffers in it copy nothing in between.
type Region struct {
	own    []byte // this rank's part
	memory []byte
	owner  *Backend
}

const page = 4096

// Allocate makes a region with that many bytes for each rank. All ranks call it, with the same size.
func (b *Backend) Allocate(ctx context.Context, size int) (*Region, error) {
	part := (size + page - 1) / page * page
	file, err := b.regionFile(ctx, part*len(b.locals))
	if err != nil {
		return nil, fmt.Errorf("Allocate: %w", err)
	}
	defer file.Close()
	memory, err := mapped(file, part*len(b.locals))
	if err != nil {
		return nil, fmt.Errorf("Allocate: %w", err)
	}
	r := &Region{own: memory[b.me*part : b.me*part+size : b.me*part+size], memory: memory, owner: b}
	if C.gorun_engine_region(b.engine, unsafe.Pointer(&memory[0]), C.size_t(part)) != 0 {
		r.unmap()
		return nil, fmt.Errorf("Allocate: %d regions are in use: free some", C.MAX_REGIONS)
	}
	b.shared = append(b.shared, r)
	return r, b.Run(ctx, &backend.Call{Kind: backend.Barrier})
}

// regionFile is made by the lowest rank, which hands it to the others.
func (b *Backend) regionFile(ctx context.Context, size int) (*os.File, error) {
	if b.me != 0 {
		select {
		case file, ok := <-b.links.regions:
			if !ok {
				return nil, backend.ErrClosed
			}
			return file, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	file, err := anonymous(size)
	if err != nil {
		return nil, err
	}
	for _, peer := range b.links.peers {
		if peer != nil {
			if err := hand(peer, file); err != nil {
				return nil, err
			}
		}
	}
	return file, nil
}

// Free gives the region back. All ranks call it.
func (r *Region) Free(ctx context.Context) error {
	b := r.owner
	if err := b.Run(ctx, &backend.Call{Kind: backend.Barrier}); err != nil {
		return err
	}
	for i, other := range b.shared {
		if other == r {
			b.shared = append(b.shared[:i], b.shared[i+1:]...)
			C.gorun_engine_region_drop(b.engine, unsafe.Pointer(&r.memory[0]))
			r.unmap()
			break
		}
	}
	return nil
}

func (r *Region) unmap() {
	unmap(r.memory)
	r.own, r.memory = nil, nil
}

// Bytes is this rank's part.
func (r *Region) Bytes() []byte { return r.own }
