//go:build cgo

package cpu

// #include <stdlib.h>
// #include "engine.h"
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// far contains a control connection to each rank on another host. The data connections belong to the C engine. A
// control connection carries information between calls: that a rank leaves, why the group failed, and where a late rank
// is. If it closes, its rank has died.
type far struct {
	owner    *Backend
	conns    map[int]*control // by rank
	mates    [][]int          // for each rank, the ranks on its host, ascending
	watchers sync.WaitGroup
	reported sync.Once

	mu      sync.Mutex
	closed  bool
	asked   uint64
	answers map[uint64]chan answer
}

type control struct {
	mu   sync.Mutex // one message at a time
	conn net.Conn
}

// answer contains the whereabouts of a rank and of the others on its host.
type answer struct {
	rank  int
	where []C.struct_whereabouts
}

// The messages: a letter, for some followed by a fixed number of bytes.
const (
	sayLeave  = 'B'
	sayFailed = 'F' // struct failure
	sayWhere  = 'Q' // query number
	sayHere   = 'R' // query number, struct whereabouts for each rank of the host
)

// spread connects this rank to the ranks on other hosts.
func (b *Backend) spread(ctx context.Context, cards []card) error {
	numbers, _ := hostNumbers(cards)
	w := newWire(b.config.Rank, b.config.Key)
	w.reader = b.reader()
	err := b.meetFar(ctx, w, numbers)
	if err != nil {
		w.close()
		return err
	}
	if err := b.attach(w, numbers); err != nil {
		w.close()
		return err
	}
	b.far = &far{owner: b, conns: map[int]*control{}, answers: map[uint64]chan answer{}, mates: matesOf(numbers)}
	for s, conn := range w.made {
		if s.purpose == forControl {
			b.far.conns[s.rank] = &control{conn: conn}
		}
	}
	for rank, c := range b.far.conns {
		b.far.watchers.Go(func() { b.far.watch(rank, c) })
	}
	return nil
}

// matesOf returns, for each rank, the ranks on its host.
func matesOf(numbers []int) [][]int {
	mates := make([][]int, len(numbers))
	for rank, host := range numbers {
		for other, number := range numbers {
			if number == host {
				mates[rank] = append(mates[rank], other)
			}
		}
	}
	return mates
}

func (b *Backend) meetFar(ctx context.Context, w *wire, numbers []int) error {
	if err := w.listen(); err != nil {
		return err
	}
	loopback := b.config.Host != ""
	own, err := w.addresses(b.config.Near, loopback)
	if err != nil {
		return err
	}
	all, err := exchangeAs(ctx, &b.config, own, b.digest)
	if err != nil {
		return err
	}
	for rank, addresses := range all {
		if err := checkAddresses(addresses, loopback); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	w.session = b.digest.Sum(nil)
	var others []int
	for rank, number := range numbers {
		if number != numbers[b.config.Rank] {
			others = append(others, rank)
		}
	}
	return w.connect(ctx, others, all)
}

// attach passes the data connections to the engine.
func (b *Backend) attach(w *wire, numbers []int) error {
	n := len(numbers)
	room := C.malloc(C.size_t(2 * n * C.sizeof_int))
	defer C.free(room)
	words := unsafe.Slice((*C.int)(room), 2*n)
	hosts, fds := words[:n], words[n:]
	for rank := range n {
		hosts[rank], fds[rank] = C.int(numbers[rank]), -1
	}
	var err error
	for s, conn := range w.made {
		if s.purpose != forData || err != nil {
			continue
		}
		var fd int
		fd, err = w.descriptor(conn)
		fds[s.rank] = C.int(fd)
		conn.Close()
	}
	if err == nil && C.gorun_engine_spread(b.engine, C.int(n), C.int(b.config.Rank), &hosts[0], &fds[0],
		C.uint64_t(b.config.FirstCall)) != 0 {
		err = errors.New("no memory for the group's state")
	}
	for _, fd := range fds {
		if err != nil && fd >= 0 {
			unix.Close(int(fd))
		}
	}
	return err
}

// send writes one message. It gives up after a second if the peer does not read.
func (c *control) send(say byte, parts ...[]byte) {
	message := []byte{say}
	for _, part := range parts {
		message = append(message, part...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	c.conn.Write(message)
}

// tell sends a failure that this host detected to the other hosts, once.
func (f *far) tell(failure *C.struct_failure) {
	if f == nil || failure.imported != 0 {
		return
	}
	f.reported.Do(func() {
		record := C.GoBytes(unsafe.Pointer(failure), C.sizeof_struct_failure)
		for _, c := range f.conns {
			c.send(sayFailed, record)
		}
	})
}

// watch reads messages from a rank on another host until it leaves or its connection ends.
func (f *far) watch(rank int, c *control) {
	for {
		err := f.receive(rank, c)
		if err == nil {
			continue
		}
		how := goneDead
		if errors.Is(err, errLeft) {
			how = goneLeft
		}
		f.mu.Lock()
		closed := f.closed
		f.mu.Unlock()
		if !closed {
			f.owner.locked(func() { C.gorun_engine_far_gone(f.owner.engine, C.int(rank), C.int(how)) })
		}
		return
	}
}

var errLeft = errors.New("it closed the group")

func (f *far) receive(rank int, c *control) error {
	var letter [1]byte
	if _, err := io.ReadFull(c.conn, letter[:]); err != nil {
		return err
	}
	sizes := map[byte]int{
		sayLeave: 0, sayFailed: C.sizeof_struct_failure, sayWhere: 8,
		sayHere: 8 + len(f.mates[rank])*C.sizeof_struct_whereabouts,
	}
	say := letter[0]
	size, known := sizes[say]
	if !known {
		return fmt.Errorf("rank %d says %q", rank, say)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return err
	}
	switch say {
	case sayLeave:
		return errLeft
	case sayFailed:
		failure, err := failureIn(body, len(f.mates))
		if err != nil {
			return err
		}
		f.owner.locked(func() { C.gorun_engine_import(f.owner.engine, failure) })
	case sayWhere:
		f.answer(c, body)
	case sayHere:
		return f.answered(rank, body)
	}
	return nil
}

// failureIn decodes a struct failure from a rank on another host. It validates the rank numbers, which are used as
// indices.
func failureIn(body []byte, ranks int) (*C.struct_failure, error) {
	f := new(C.struct_failure)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(f)), C.sizeof_struct_failure), body)
	last := &f.text[len(f.text)-1]
	named := append(late(f), int(f.rank), int(f.other))
	if f.kind < C.FAIL_LOST || f.kind > C.FAIL_ABORTED || *last != 0 || slices.Max(named) >= ranks {
		return nil, errors.New("it tells of a failure that cannot be")
	}
	return f, nil
}

func (f *far) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	for _, c := range f.conns {
		c.send(sayLeave)
		c.conn.Close()
	}
	f.watchers.Wait()
}

// --- late ranks ---

// patience limits the wait for the whereabouts of other hosts. A stopped process does not answer; another rank of its
// host answers for it.
const patience = time.Second

// whereabouts reads the state of the host's ranks from its memory.
func (b *Backend) whereabouts() []C.struct_whereabouts {
	all := make([]C.struct_whereabouts, len(b.locals))
	b.locked(func() {
		for local := range all {
			C.gorun_engine_where(b.engine, C.int(local), &all[local])
		}
	})
	return all
}

func bytesOf(all []C.struct_whereabouts) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*C.sizeof_struct_whereabouts)
}

func (f *far) answer(c *control, question []byte) {
	c.send(sayHere, question, bytesOf(f.owner.whereabouts()))
}

func (f *far) answered(rank int, body []byte) error {
	a := answer{rank, make([]C.struct_whereabouts, len(f.mates[rank]))}
	copy(bytesOf(a.where), body[8:])
	for _, w := range a.where {
		if w.waits_for < -1 || w.waits_for >= C.int64_t(len(f.mates)) {
			return fmt.Errorf("it waits for rank %d of %d", w.waits_for, len(f.mates))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if answers := f.answers[binary.LittleEndian.Uint64(body)]; answers != nil {
		select {
		case answers <- a:
		default: // a duplicate answer
		}
	}
	return nil
}

// A survey contains the answers to a query for the whereabouts of all ranks.
type survey struct {
	me       int
	all      map[int]C.struct_whereabouts // lacks the ranks of hosts without an answer
	silent   map[int]bool                 // remote ranks that did not answer themselves
	answered map[int]bool                 // remote ranks that did
}

// late returns the ranks that have not reached this rank's call and wait for no rank.
func (s *survey) late(ranks int) (late []int) {
	own := s.all[s.me]
	for rank := range ranks {
		w, known := s.all[rank]
		if !known || collective(own.what) && w.sequence < own.sequence && awaits(w) < 0 {
			late = append(late, rank)
		}
	}
	return late
}

// awaits returns the rank that a rank waits for, or the peer of its Send or Recv. It returns -1 for none.
func awaits(w C.struct_whereabouts) int {
	switch {
	case w.waits_for >= 0:
		return int(w.waits_for)
	case w.what&255 == C.K_SEND, w.what&255 == C.K_RECV:
		return int(w.what >> 32)
	}
	return -1
}

// opposite handles a cycle of ranks that wait for each other. It returns the nearest rank in the cycle whose call
// cannot match this rank's call. One of the two calls is a Send or Recv that the other rank does not expect. Ranks on
// one host detect this earlier: see deadlock.h.
//
// A rank in a Send or Recv must have answered itself. If it is stopped, the message may have arrived long ago.
func (s *survey) opposite(rank int) (odd int, found bool) {
	own := s.all[s.me]
	seen := map[int]bool{s.me: true}
	for !seen[rank] {
		w, known := s.all[rank]
		next := awaits(w)
		if !known || next < 0 || !collective(w.what) && !s.answered[rank] {
			return 0, false
		}
		if !found && !(collective(w.what) && collective(own.what)) && (w.what != own.what || w.count != own.count) {
			odd, found = rank, true
		}
		seen[rank], rank = true, next
	}
	return odd, found
}

// ask queries every rank on other hosts. It stops waiting when the answers identify a late rank.
func (f *far) ask() *survey {
	s := &survey{f.owner.config.Rank, map[int]C.struct_whereabouts{}, map[int]bool{}, map[int]bool{}}
	answers := make(chan answer, len(f.conns))
	f.mu.Lock()
	f.asked++
	number := f.asked
	f.answers[number] = answers
	f.mu.Unlock()
	for rank, c := range f.conns {
		s.silent[rank] = true
		c.send(sayWhere, binary.LittleEndian.AppendUint64(nil, number))
	}
	for local, w := range f.owner.whereabouts() {
		s.all[f.owner.locals[local]] = w
	}
	over := time.After(patience)
	for waiting := true; waiting && len(s.silent) > 0; {
		select {
		case a := <-answers:
			delete(s.silent, a.rank)
			s.answered[a.rank] = true
			for i, mate := range f.mates[a.rank] {
				s.all[mate] = a.where[i]
			}
			waiting = len(s.all) < len(f.mates) || len(s.late(len(f.mates))) == 0
		case <-over:
			waiting = false
		}
	}
	f.mu.Lock()
	delete(f.answers, number)
	f.mu.Unlock()
	return s
}

// inquire finds the ranks that caused a timeout of this rank and records them in the engine.
func (b *Backend) inquire() {
	s := b.far.ask()
	for rank, w := range s.all {
		if disagrees(s.all[b.config.Rank], w) {
			b.locked(func() { C.gorun_engine_disagree(b.engine, C.int(rank), w.what, w.count) })
			return
		}
	}
	if rank, found := s.opposite(int(C.gorun_engine_waited_for(b.engine))); found {
		w := s.all[rank]
		b.locked(func() { C.gorun_engine_disagree(b.engine, C.int(rank), w.what, w.count) })
		return
	}
	blamed := s.late(b.config.Ranks)
	if len(blamed) == 0 {
		blamed = slices.Collect(maps.Keys(s.silent))
	}
	if len(blamed) == 0 {
		blamed = []int{culprit(s.all, int(C.gorun_engine_waited_for(b.engine)), b.config.Rank)}
	}
	var late [C.LATE_WORDS]C.uint64_t
	for _, rank := range blamed {
		late[rank/64] |= 1 << (rank % 64)
	}
	b.locked(func() { C.gorun_engine_late(b.engine, &late[0]) })
}

// collective reports whether all ranks make the call.
func collective(what C.uint64_t) bool {
	switch what & 255 {
	case 0, C.K_SEND, C.K_RECV, C.K_SENDRECV:
		return false
	}
	return true
}

// disagrees reports whether two ranks are in a collective with the same sequence number but different arguments.
func disagrees(a, b C.struct_whereabouts) bool {
	return a.sequence == b.sequence && collective(a.what) && collective(b.what) && (a.what != b.what || a.count != b.count)
}

// culprit follows the chain of waiting ranks to its end. A rank that waits for another rank is not the cause.
func culprit(all map[int]C.struct_whereabouts, rank, me int) int {
	for range all {
		w, answered := all[rank]
		next := int(w.waits_for)
		if !answered || next < 0 || next == me {
			break
		}
		rank = next
	}
	return rank
}
