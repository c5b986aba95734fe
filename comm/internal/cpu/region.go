//go:build cgo

package cpu

// #include "engine.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"gorun/comm/internal/backend"
)

// Region is memory that all ranks of the host map. Each rank owns one part. Calls on buffers in regions copy nothing in
// between.
type Region struct {
	own    []byte // this rank's part
	memory []byte
	owner  *Backend
}

const page = 4096

// MaxRegions is the maximum number of regions in a group at a time.
const MaxRegions = C.MAX_REGIONS

// Regions returns the number of regions. Between calls, it is equal on all ranks.
func (b *Backend) Regions() int { return len(b.shared) }

// Allocate creates a region with size bytes for each rank. All ranks must call it with the same size. caller is the
// function that error messages name.
func (b *Backend) Allocate(ctx context.Context, caller string, size int) (*Region, error) {
	if err := b.agree(ctx, caller+" of %d bytes", size); err != nil {
		return nil, fmt.Errorf("%s: %w", caller, err)
	}
	part := (size + page - 1) / page * page
	memory, err := b.regionMemory(ctx, part*len(b.locals))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caller, err)
	}
	r := &Region{own: memory[b.me*part : b.me*part+size : b.me*part+size], memory: memory, owner: b}
	if C.gorun_engine_region(b.engine, unsafe.Pointer(&memory[0]), C.size_t(part)) != 0 {
		r.unmap()
		return nil, fmt.Errorf("%s: more than %d regions", caller, MaxRegions)
	}
	b.shared = append(b.shared, r)
	return r, b.Run(ctx, &backend.Call{Kind: backend.Barrier})
}

// agree waits for all ranks and checks that they pass the same number.
func (b *Backend) agree(ctx context.Context, what string, number int) error {
	own, all := []int64{int64(number)}, make([]int64, b.config.Ranks)
	err := b.Run(ctx, &backend.Call{
		Kind: backend.AllGather, DType: backend.Int64, Count: 1,
		Send: unsafe.Pointer(unsafe.SliceData(own)), Recv: unsafe.Pointer(unsafe.SliceData(all)),
	})
	if err != nil {
		return err
	}
	for rank, other := range all {
		if other != all[0] {
			return b.reader().For(&backend.MismatchError{
				Sequence: uint64(C.gorun_engine_sequence(b.engine)), RankB: rank,
				CallA: fmt.Sprintf(what, all[0]), CallB: fmt.Sprintf(what, other),
			})
		}
	}
	return nil
}

// regionMemory maps the region's file. It reports a failure to the other ranks, which would wait otherwise.
func (b *Backend) regionMemory(ctx context.Context, size int) ([]byte, error) {
	var own *os.File
	var failed error
	if b.me == 0 {
		if own, failed = b.handOut(size); failed != nil {
			b.Abort(fmt.Errorf("Allocate: %w", failed))
			return nil, failed
		}
	}
	// Rank 0 has sent the file when it reaches this barrier.
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
	closed(own)
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

// handOut creates the file and sends it to the host's other ranks. It ignores lost ranks; the next call reports them.
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

// Free releases the region. All ranks must call it.
func (r *Region) Free(ctx context.Context) error {
	b := r.owner
	i := slices.Index(b.shared, r)
	if err := b.agree(ctx, "Free of piece %d of shared memory", i); err != nil {
		return fmt.Errorf("Free: %w", err)
	}
	b.shared = slices.Delete(b.shared, i, i+1)
	C.gorun_engine_region_drop(b.engine, unsafe.Pointer(&r.memory[0]))
	r.unmap()
	return nil
}

func (r *Region) unmap() {
	unmap(r.memory)
	r.own, r.memory = nil, nil
}

// Bytes returns this rank's part.
func (r *Region) Bytes() []byte { return r.own }
