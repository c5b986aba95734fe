//go:build cgo

package cpu

// #include "engine.h"
import "C"

import (
	"context"
	"errors"
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
	if err := b.agree(ctx, size); err != nil {
		return nil, fmt.Errorf("Allocate: %w", err)
	}
	part := (size + page - 1) / page * page
	memory, err := b.regionMemory(ctx, part*len(b.locals))
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

// agree makes sure that all ranks are there and want the same size.
func (b *Backend) agree(ctx context.Context, size int) error {
	own, all := []int64{int64(size)}, make([]int64, b.config.Ranks)
	err := b.Run(ctx, &backend.Call{
		Kind: backend.AllGather, DType: backend.Int64, Count: 1,
		Send: unsafe.Pointer(unsafe.SliceData(own)), Recv: unsafe.Pointer(unsafe.SliceData(all)),
	})
	if err != nil {
		return err
	}
	for rank, other := range all {
		if other != all[0] {
			return &backend.MismatchError{
				Sequence: uint64(C.gorun_engine_sequence(b.engine)), RankB: rank,
				CallA: fmt.Sprintf("Allocate of %d bytes", all[0]), CallB: fmt.Sprintf("Allocate of %d bytes", other),
			}
		}
	}
	return nil
}

// regionMemory maps the region's file. Who cannot tells the others, which would wait.
func (b *Backend) regionMemory(ctx context.Context, size int) ([]byte, error) {
	var own *os.File
	var failed error
	if b.me == 0 {
		if own, failed = b.handOut(size); failed != nil {
			b.Abort(fmt.Errorf("Allocate: %w", failed))
			return nil, failed
		}
	}
	// The file is on its way when rank 0 comes here.
	if err := b.Run(ctx, &backend.Call{Kind: backend.Barrier}); err != nil {
		return nil, errors.Join(err, closed(own))
	}
	if b.me != 0 {
		file, ok := <-b.links.regions
		if !ok {
			return nil, backend.ErrClosed
		}
		own = file
	}
	memory, err := mapped(own, size)
	own.Close()
	if err != nil {
		b.Abort(fmt.Errorf("Allocate: %w", err))
	}
	return memory, err
}

func closed(file *os.File) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

// handOut makes the file and sends it to the host's other ranks. Who is gone by then is missed by the next call.
func (b *Backend) handOut(size int) (*os.File, error) {
	file, err := anonymous(size)
	if err != nil {
		return nil, err
	}
	for _, peer := range b.links.peers {
		if peer != nil {
			hand(peer, file)
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
