//go:build cgo

package nccl

// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"gorun/comm/internal/backend"
)

// looks is the number of polls in C between two checks of the context in Go: about 100 µs.
const looks = 256

// closingTime limits the time in which Close waits for NCCL's background work before it aborts it.
const closingTime = 5 * time.Second

// Backend is one rank of a group.
//
// NCCL neither checks that the ranks make the same calls nor reports missing ranks. comm does both, and
// reports lost ranks through Config.Failed. Every error ends the group.
type Backend struct {
	library *Library
	config  Config
	planner planner
	patient patience
	aborted chan struct{}
	closing time.Duration // closingTime; shorter in tests

	running sync.Mutex // held by Run, and while the communicator ends
	rank    *C.struct_gorun_rank
	steps   []step
	pinned  runtime.Pinner   // pins the call's buffers in host memory
	stages  [2]*DeviceBuffer // device copies of host buffers: send, receive
	flag    *DeviceBuffer    // the operand of a barrier's all-reduce

	mu     sync.Mutex
	reason error // why the group ended; aborted is closed when it is set
}

// joinCall is the name of Join in errors.
const joinCall = "Join"

// flagBytes is the size of one int32.
const flagBytes = 4

// Join makes this rank a member of the group. All ranks must call it at the same time. It blocks until all have joined,
// ctx ends or the timeout expires. It returns errors of the exchange and of the libraries.
func (l *Library) Join(ctx context.Context, c Config) (*Backend, error) {
	b := &Backend{library: l, config: c, aborted: make(chan struct{}), closing: closingTime}
	b.planner = planner{member: member{c.Rank, c.Ranks}, nativeAllToAll: l.nccl.table.all_to_all != nil}
	b.patient.aborted, b.patient.failed = b.aborted, c.Failed
	ids, err := b.meet(ctx)
	if err == nil {
		err = b.join(ctx, ids)
	}
	if err != nil {
		err = fmt.Errorf("join: rank %d of %d on GPU %d: %w", c.Rank, c.Ranks, c.Device, err)
		return nil, errors.Join(err, b.end(true))
	}
	return b, nil
}

// meet creates this rank's unique id, if any, and returns the ids of all ranks. A rank that cannot join reports its
// error instead, so that the other ranks do not wait.
func (b *Backend) meet(ctx context.Context) ([]byte, error) {
	l, c := b.library, b.config
	scalable := l.nccl.table.init_rank_scalable != nil
	carries, payload, err := b.part(scalable)
	if err != nil {
		carries, payload = carriesError, []byte(err.Error())
	}
	all, err := c.Exchange(ctx, blob(fmt.Sprintf("%s %v", l.gpus.family.name, l.nccl.version), carries, payload))
	if err != nil {
		return nil, fmt.Errorf("exchange NCCL's ids: %w", err)
	}
	ids, err := idsOf(all, c.Rank, c.Ranks)
	if err == nil && len(ids) > idBytes && !scalable {
		err = fmt.Errorf("%d ids came, and %s takes only one", len(ids)/idBytes, l.nccl.file)
	}
	return ids, err
}

// part allocates this rank's GPU resources and returns its contribution to the exchange.
func (b *Backend) part(scalable bool) (carries byte, payload []byte, err error) {
	l, c := b.library, b.config
	devices, err := l.Devices()
	if err != nil {
		return 0, nil, err
	}
	if c.Device < 0 || c.Device >= devices {
		return 0, nil, fmt.Errorf("GPU %d does not exist: the process sees %d (0 to %d)", c.Device, devices, devices-1)
	}
	if b.flag, err = l.Alloc(c.Device, flagBytes); err != nil {
		return 0, nil, err
	}
	zero := int32(0)
	if err := b.flag.CopyIn(unsafe.Pointer(&zero), flagBytes); err != nil {
		return 0, nil, err
	}
	if !slices.Contains(holders(c.Ranks, scalable), c.Rank) {
		return carriesNothing, nil, nil
	}
	id, err := l.uniqueID()
	return carriesID, id[:], err
}

// join creates the communicator.
func (b *Backend) join(ctx context.Context, ids []byte) error {
	b.rank = (*C.struct_gorun_rank)(C.calloc(1, C.sizeof_struct_gorun_rank))
	b.rank.nccl, b.rank.runtime, b.rank.device = b.library.nccl.table, b.library.gpus.table, C.int(b.config.Device)
	status := C.gorun_init(b.rank, C.int(b.config.Ranks), C.int(b.config.Rank), C.int(len(ids)/idBytes),
		(*C.struct_gorun_id)(unsafe.Pointer(&ids[0])))
	if err := b.library.failure(status, b.rank.comm); err != nil {
		return err
	}
	return b.explained(joinCall, b.patient.await(ctx, b.config.Timeout, b.joined))
}

func (b *Backend) joined() (bool, error) {
	var status C.struct_gorun_status
	done := C.gorun_joined(b.rank, &status) == 1
	return done, b.library.failure(status, b.rank.comm)
}

// explained converts an error of a call for the user. An abort becomes the group's first error, and a timeout a
// slowError. Other errors get the call's name, except in Join.
func (b *Backend) explained(call string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errAborted):
		return b.failure()
	case errors.Is(err, errTime):
		said := C.GoString(C.gorun_nccl_last(b.library.nccl.table, b.rank.comm))
		return &slowError{call: call, after: b.config.Timeout, said: said}
	}
	if call == joinCall {
		return err
	}
	return fmt.Errorf("%s: %w", call, err)
}

// Run runs one call. Buffers outside a DeviceBuffer are copied to the GPU and back.
func (b *Backend) Run(ctx context.Context, call *backend.Call) error {
	b.running.Lock()
	defer b.release()
	err := b.failure()
	if err == nil {
		if err = b.run(ctx, call); err == nil {
			return nil
		}
		err = b.fail(err)
	}
	b.leave(true)
	return err
}

// release unlocks running. If an Abort arrived in the meantime, release ends the communicator.
func (b *Backend) release() {
	b.running.Unlock()
	b.leaveIfFailed()
}

// leaveIfFailed ends the communicator of a failed group. If another goroutine holds running, that one ends it.
func (b *Backend) leaveIfFailed() {
	if b.failure() != nil && b.running.TryLock() {
		defer b.running.Unlock()
		b.leave(true)
	}
}

func (b *Backend) run(ctx context.Context, call *backend.Call) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", describe(call), context.Cause(ctx))
	}
	if err := b.planner.check(call); err != nil {
		return err
	}
	defer b.pinned.Unpin()
	here, err := b.place(call)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(call), err)
	}
	b.plan(call, here)
	if len(b.steps) > 0 {
		status := C.gorun_enqueue(b.rank, (*C.struct_gorun_step)(unsafe.Pointer(&b.steps[0])), C.size_t(len(b.steps)))
		err := b.library.failure(status, b.rank.comm)
		if err == nil {
			err = b.patient.await(ctx, b.config.Timeout, b.done)
		}
		if err != nil {
			return b.explained(describe(call), err)
		}
	}
	if err := b.copyBack(here); err != nil {
		return fmt.Errorf("%s: %w", describe(call), err)
	}
	return nil
}

func (b *Backend) plan(call *backend.Call, here placed) {
	if call.Kind == backend.Barrier {
		call = &backend.Call{Kind: backend.AllReduce, DType: backend.Int32, Op: backend.Max, Count: 1}
		here.send, here.recv = b.flag.at, b.flag.at
	}
	b.steps = b.planner.plan(call, uintptr(here.send), uintptr(here.recv), b.steps[:0])
}

func (b *Backend) done() (bool, error) {
	var status C.struct_gorun_status
	done := C.gorun_done(b.rank, looks, &status) == 1
	return done, b.library.failure(status, b.rank.comm)
}

// failure returns the reason why the group ended, or nil.
func (b *Backend) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reason
}

// fail marks the group as ended and returns the first reason.
func (b *Backend) fail(reason error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == nil {
		b.reason = reason
		close(b.aborted)
	}
	return b.reason
}

// Abort ends this rank's part of the group. comm must notify the other ranks, because NCCL makes ranks of one host wait
// for each other forever.
func (b *Backend) Abort(reason error) {
	b.fail(reason)
	b.leaveIfFailed()
}

// Close ends the communicator and frees the rank's GPU memory. It aborts the communicator if a call failed. A call in
// progress fails with ErrClosed.
func (b *Backend) Close() error {
	healthy := b.failure() == nil
	if first := b.fail(backend.ErrClosed); !errors.Is(first, backend.ErrClosed) {
		healthy = false
	}
	b.running.Lock()
	defer b.running.Unlock()
	return b.end(!healthy)
}

// end frees everything. No other goroutine may use b.
func (b *Backend) end(force bool) error {
	err := b.leave(force)
	for _, buffer := range []*DeviceBuffer{b.flag, b.stages[0], b.stages[1]} {
		if buffer != nil {
			err = errors.Join(err, buffer.Free())
		}
	}
	return err
}

// leave ends the communicator, once. Without force, NCCL can finish its background work first.
func (b *Backend) leave(force bool) error {
	if b.rank == nil {
		return nil
	}
	if !force {
		finalized := b.library.failure(C.gorun_finalize(b.rank), b.rank.comm)
		if finalized == nil {
			quiet := patience{}
			finalized = quiet.await(context.Background(), b.closing, b.joined)
		}
		force = finalized != nil
	}
	how := C.int(0)
	if force {
		how = 1
	}
	err := b.library.failure(C.gorun_leave(b.rank, how), nil)
	C.free(unsafe.Pointer(b.rank))
	b.rank = nil
	return err
}
