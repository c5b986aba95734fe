//go:build cgo

// Package cpu runs collectives on CPUs, in C: through shared memory within a host, and over TCP between hosts.
//
// The ranks meet through an exchange that the caller provides. The lowest rank of each host creates the memory, an
// unnamed file (memfd) that cannot outlive the ranks. It passes the file to the other ranks through a Unix socket to
// the same user. The socket connections stay open: if one closes, its rank has died.
package cpu

// #cgo CFLAGS: -O3 -std=gnu11 -Wall -Wextra
// #include <stdlib.h>
// #include "do.h"
// #include "engine.h"
// #cgo noescape gorun_engine_do
// #cgo nocallback gorun_engine_do
// #cgo noescape gorun_engine_do_blocks
// #cgo nocallback gorun_engine_do_blocks
import "C"

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"gorun/comm/internal/backend"
)

// Backend is one rank of a group. It implements [backend.Backend].
type Backend struct {
	config Config
	locals []int    // this host's ranks, ascending
	me     int      // this rank's index in locals
	notes  []string // each rank's Config.Note
	places []int    // each rank's local rank
	links  *links
	memory []byte
	far    *far // nil if all ranks are on this host

	turns   turns             // yields between calls
	buffers [2]unsafe.Pointer // of the current call; see Run
	digest  hash.Hash         // of the blobs that the ranks exchange in Join

	mu     sync.Mutex // guards engine against Close
	engine *C.struct_engine
	closed bool
	later  *time.Timer // registers the process for membarrier
	shared []*Region
}

var _ backend.Backend = (*Backend)(nil)

// Join makes this rank a member of the group. All ranks must call it. It fails if the exchange fails, if ranks do not
// answer before ctx ends, or if the host has no memory.
func Join(ctx context.Context, c Config) (*Backend, error) {
	b := &Backend{config: c, digest: sha256.New()}
	if c.Key != nil && len(c.Key) < KeySize {
		return nil, fmt.Errorf("join: a key of %d bytes is too short: it needs %d random ones", len(c.Key), KeySize)
	}
	b.links = newLinks(b.gone)
	cards, err := b.introduce(ctx)
	if err == nil {
		err = b.share(ctx, cards)
	}
	if err == nil && len(b.locals) < len(cards) {
		err = b.spread(ctx, cards)
	}
	if err != nil {
		b.giveUp()
		return nil, fmt.Errorf("join: rank %d of %d: %w", c.Rank, c.Ranks, err)
	}
	return b, nil
}

// giveUp frees the resources of a failed Join.
func (b *Backend) giveUp() {
	if b.engine != nil {
		b.Close()
		return
	}
	b.links.close()
	unmap(b.memory)
}

// introduce exchanges cards with all ranks.
func (b *Backend) introduce(ctx context.Context) ([]card, error) {
	own, err := ownCard(b.links, b.config.Host, b.config.Key, C.gorun_engine_can_expedite() != 0)
	if err != nil {
		return nil, err
	}
	own.Note = b.config.Note
	cards := []card{own}
	if b.config.Ranks > 1 {
		if cards, err = exchangeCards(ctx, &b.config, own, b.digest); err != nil {
			return nil, err
		}
	}
	before := map[string]int{}
	for _, c := range cards {
		b.notes, b.places = append(b.notes, c.Note), append(b.places, before[c.Host])
		before[c.Host]++
	}
	b.locals = neighbours(cards, b.config.Rank)
	for i, rank := range b.locals {
		if rank == b.config.Rank {
			b.me = i
		}
	}
	if numbers, count := hostNumbers(cards); count > 1 {
		return cards, sameKey(cards, numbers)
	}
	return cards, nil
}

// share maps the host's memory and creates the engine on it.
func (b *Backend) share(ctx context.Context, cards []card) error {
	local := make([]card, len(b.locals))
	expedited := true
	for i, rank := range b.locals {
		local[i] = cards[rank]
		expedited = expedited && local[i].Expedited
	}
	spare := !crowded(cards, b.config.Rank)
	size := int(C.gorun_layout_for(C.int(len(local)), flag(!spare)).total)
	memory, err := b.links.segment(ctx, local, b.me, size, func(fresh []byte) {
		if b.config.FirstCall != 0 {
			C.gorun_engine_prepare(unsafe.Pointer(&fresh[0]), C.int(len(local)), flag(!spare), C.uint64_t(b.config.FirstCall))
		}
	})
	if err != nil {
		return b.missed(err)
	}
	b.memory = memory
	options := C.struct_engine_options{
		ranks: C.int(len(local)), rank: C.int(b.me), crowded: flag(!spare), expedited: flag(expedited),
		timeout_ns: C.uint64_t(b.config.Timeout.Nanoseconds()), first_call: C.uint64_t(b.config.FirstCall),
	}
	b.mu.Lock()
	b.engine = C.gorun_engine_new(unsafe.Pointer(&memory[0]), &options)
	b.mu.Unlock()
	if b.engine == nil {
		return errors.New("no memory for the group's state")
	}
	if spare && expedited && len(local) > 1 {
		b.later = time.AfterFunc(settled, b.expedite)
	}
	b.links.watch()
	return nil
}

// settled is the age of a group at which the cost of registered pays off.
const settled = 100 * time.Millisecond

// registered registers the process for membarrier. The kernel takes about 10 ms for this in a process with threads.
// Neither Join nor the end of a short program should wait for it.
var registered = sync.OnceValue(func() bool { return C.gorun_engine_register() == 0 })

func (b *Backend) expedite() {
	if registered() {
		b.locked(func() { C.gorun_engine_expedite(b.engine) })
	}
}

// missed adds the ranks of the host that did not connect to an error. Only the lowest rank, which the others wait for,
// knows them.
func (b *Backend) missed(err error) error {
	if b.me != 0 {
		return fmt.Errorf("%s gives the host's ranks their memory: %w", b.reader().Rank(b.locals[0]), err)
	}
	var missing []int
	for i, rank := range b.locals {
		if i != b.me && b.links.peers[i] == nil {
			missing = append(missing, rank)
		}
	}
	if len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%s did not come: %w", b.reader().Ranks(missing), err)
}

func flag(on bool) C.int {
	if on {
		return 1
	}
	return 0
}

func (b *Backend) Name() string { return "cpu" }

// Run implements [backend.Backend].
func (b *Backend) Run(ctx context.Context, call *backend.Call) error {
	var err error
	// Storing the pointers here moves the buffers to the heap. C gets their addresses as numbers, which Go would not
	// update if the stack grew before the call.
	b.buffers = [2]unsafe.Pointer{call.Send, call.Recv}
	if ctx.Done() == nil {
		err = b.verdict(b.do(call), call, nil)
	} else {
		err = b.cancellable(ctx, call, func() C.int { return b.do(call) })
	}
	b.buffers = [2]unsafe.Pointer{}
	b.turns.over(call)
	return err
}

func (b *Backend) cancel(on bool) {
	b.locked(func() { C.gorun_engine_cancel(b.engine, flag(on)) })
}

// MonitoredBarrier implements [backend.Backend].
func (b *Backend) MonitoredBarrier(ctx context.Context, limit time.Duration) error {
	call := backend.Call{Kind: backend.Barrier}
	return b.cancellable(ctx, &call, func() C.int {
		return C.gorun_engine_monitored(b.engine, C.uint64_t(limit.Nanoseconds()))
	})
}

// Notes returns the Config.Note of each rank.
func (b *Backend) Notes() []string { return b.notes }

// Local returns the local rank of a rank.
func (b *Backend) Local(rank int) int { return b.places[rank] }

// Agree blocks until all ranks are about to make this call in another back end. Its errors name ranks that are late,
// lost, or about to make a different call.
func (b *Backend) Agree(ctx context.Context, c *backend.Call) error {
	if b.far != nil { // hosts compare only calls that they run themselves; a barrier is enough here
		return b.Run(ctx, &backend.Call{Kind: backend.Barrier})
	}
	return b.cancellable(ctx, c, func() C.int {
		what := C.uint32_t(c.Kind) | C.uint32_t(c.DType)<<8 | C.uint32_t(c.Op)<<16
		return C.gorun_engine_do_agree(b.engine, what, C.int(c.Root), C.size_t(c.Count), first(c.Counts))
	})
}

// cancellable runs act and cancels it when ctx ends. It clears the cancellation afterwards, since the next call has
// another context.
func (b *Backend) cancellable(ctx context.Context, call *backend.Call, act func() C.int) error {
	if ctx.Err() != nil {
		return b.verdict(C.RUN_CANCELLED, call, ctx)
	}
	reported := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(reported)
		b.cancel(true)
	})
	status := act()
	if !stop() {
		<-reported
		b.cancel(false)
	}
	return b.verdict(status, call, ctx)
}

// do runs the call in C. Run keeps the buffers on the heap until do returns.
func (b *Backend) do(c *backend.Call) C.int {
	what := C.uint32_t(c.Kind) | C.uint32_t(c.DType)<<8 | C.uint32_t(c.Op)<<16
	engine := C.uintptr_t(uintptr(unsafe.Pointer(b.engine)))
	var status C.int
	if c.Counts == nil && c.SendCounts == nil && c.Kind != backend.SendRecv {
		status = C.gorun_engine_do(engine, what, C.int(c.Root), C.size_t(c.Count), C.uintptr_t(uintptr(c.Send)),
			C.uintptr_t(uintptr(c.Recv)))
	} else {
		status = C.gorun_engine_do_blocks(engine, what, C.int(c.Root), C.int(c.From), C.size_t(c.Count),
			C.size_t(c.RecvCount),
			C.uintptr_t(uintptr(c.Send)), C.uintptr_t(uintptr(c.Recv)), first(c.Counts), first(c.SendCounts),
			first(c.RecvCounts))
	}
	runtime.KeepAlive(c)
	return status
}

func first(counts []int) *C.int64_t {
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(counts)))
}

// verdict converts a status to an error.
func (b *Backend) verdict(status C.int, call *backend.Call, ctx context.Context) error {
	switch status {
	case C.RUN_OK:
		return nil
	case C.RUN_CANCELLED:
		cause := context.Cause(ctx)
		b.Abort(fmt.Errorf("%s was given up: %w", call.Kind, cause))
		return fmt.Errorf("%s: %w", call.Kind, cause)
	case C.RUN_LATE:
		b.inquire()
	}
	return b.failure(call.Kind)
}

// Failed returns why the group failed, or nil. The end of a rank's process fails it. No call may run meanwhile.
func (b *Backend) Failed() error {
	if C.gorun_engine_look(b.engine) == 0 {
		return nil
	}
	return b.failure(0)
}

// failure returns the recorded failure of the group, for a rank in a call of kind during.
func (b *Backend) failure(during backend.Kind) error {
	f := C.gorun_engine_failure(b.engine)
	if f == nil {
		return errors.New("the group failed, and does not say why")
	}
	b.far.tell(f)
	return b.explain(f, during)
}

// Abort implements [backend.Backend].
func (b *Backend) Abort(reason error) {
	text := C.CString(reason.Error())
	defer C.free(unsafe.Pointer(text))
	b.locked(func() {
		C.gorun_engine_abort(b.engine, text)
		if f := C.gorun_engine_failure(b.engine); f != nil {
			b.far.tell(f)
		}
	})
}

// gone records in the engine, and so for all ranks of the host, that a rank ended (how = 1) or closed the group (2).
func (b *Backend) gone(local, how int) {
	b.locked(func() { C.gorun_engine_gone(b.engine, C.int(local), C.int(how)) })
}

// locked runs act unless the engine is missing or closed.
func (b *Backend) locked(act func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine != nil && !b.closed {
		act()
	}
}

// Close leaves the group. Calls of other ranks that wait for this rank fail.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	C.gorun_engine_gone(b.engine, C.int(b.me), 2)
	b.closed = true
	b.mu.Unlock()
	if b.later != nil {
		b.later.Stop()
	}
	b.links.close()
	b.far.close()
	for _, region := range b.shared {
		region.unmap()
	}
	C.gorun_engine_free(b.engine)
	return unmap(b.memory)
}
