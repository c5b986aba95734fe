//go:build cgo

package cpu

// #include <stdlib.h>
// #include "hosts.h"
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// far is what connects this rank with those of other hosts beside the data, which C sends itself: a control connection to each. Over it goes what
// must be known outside of calls: that a rank leaves, that the group failed and why, where a rank is that is late. Its end says that a rank died.
type far struct {
	owner    *Backend
	conns    map[int]*control // by rank
	watchers sync.WaitGroup
	told     sync.Once

	mu      sync.Mutex
	closed  bool
	asked   uint64
	answers map[uint64]chan answer
}

type control struct {
	mu   sync.Mutex // one message at a time
	conn net.Conn
}

// answer is where a rank says to be.
type answer struct {
	rank  int
	where C.struct_whereabouts
}

// The messages: a letter, and after some of them a number of bytes that both know.
const (
	sayLeave  = 'B'
	sayFailed = 'F' // struct failure
	sayWhere  = 'Q' // number of the question
	sayHere   = 'R' // number of the question, struct whereabouts
)

// spread connects this rank with those of other hosts.
func (b *Backend) spread(ctx context.Context, cards []card) error {
	numbers, _ := hostNumbers(cards)
	w := newWire(b.config.Rank, b.config.Key)
	err := b.meetFar(ctx, w, numbers)
	if err != nil {
		w.close()
		return err
	}
	if err := b.attach(w, numbers); err != nil {
		w.close()
		return err
	}
	b.far = &far{owner: b, conns: map[int]*control{}, answers: map[uint64]chan answer{}}
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

func (b *Backend) meetFar(ctx context.Context, w *wire, numbers []int) error {
	if err := w.listen(); err != nil {
		return err
	}
	own, err := w.addresses(b.config.Near, b.config.Host != "")
	if err != nil {
		return err
	}
	all, err := exchangeAs(ctx, b.config.Exchange, own, b.digest)
	if err != nil {
		return err
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

// attach gives the engine the connections for data.
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
		fd, err = descriptor(conn)
		fds[s.rank] = C.int(fd)
		conn.Close()
	}
	if err == nil && C.gorun_engine_spread(b.engine, C.int(n), C.int(b.config.Rank), &hosts[0], &fds[0], C.uint64_t(b.config.FirstCall)) != 0 {
		err = errors.New("no memory for the group's state")
	}
	for _, fd := range fds {
		if err != nil && fd >= 0 {
			unix.Close(int(fd))
		}
	}
	return err
}

// descriptor is another descriptor of the connection, which the Go runtime doesn't know.
func descriptor(conn net.Conn) (fd int, err error) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, failed); err != nil {
		return -1, fmt.Errorf("another descriptor for a connection: %w", err)
	}
	return fd, nil
}

// send writes one message. A rank that reads nothing for a second is not waited for.
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

// tell passes a failure on that this host noticed.
func (f *far) tell(failure *C.struct_failure) {
	if f == nil || failure.imported != 0 {
		return
	}
	f.told.Do(func() {
		record := C.GoBytes(unsafe.Pointer(failure), C.sizeof_struct_failure)
		for _, c := range f.conns {
			c.send(sayFailed, record)
		}
	})
}

// watch reads what a rank of another host says until it leaves or its connection ends.
func (f *far) watch(rank int, c *control) {
	for {
		err := f.hear(rank, c)
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

func (f *far) hear(rank int, c *control) error {
	var buffer [C.sizeof_struct_failure]byte
	if _, err := io.ReadFull(c.conn, buffer[:1]); err != nil {
		return err
	}
	sizes := map[byte]int{sayLeave: 0, sayFailed: C.sizeof_struct_failure, sayWhere: 8, sayHere: 8 + C.sizeof_struct_whereabouts}
	say := buffer[0]
	size, known := sizes[say]
	if !known {
		return fmt.Errorf("rank %d says %q", rank, say)
	}
	body := buffer[:size]
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return err
	}
	switch say {
	case sayLeave:
		return errLeft
	case sayFailed:
		record := C.CBytes(body)
		defer C.free(record)
		f.owner.locked(func() { C.gorun_engine_import(f.owner.engine, (*C.struct_failure)(record)) })
	case sayWhere:
		f.answer(c, body)
	case sayHere:
		f.answered(rank, body)
	}
	return nil
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

// --- who is late ---

// patience is how long ranks of other hosts may take to say where they are. A process that is stopped says nothing.
const patience = time.Second

// where is what the host's memory says about one of its ranks.
func (b *Backend) where(local int) (w C.struct_whereabouts) {
	b.locked(func() { C.gorun_engine_where(b.engine, C.int(local), &w) })
	return w
}

func (f *far) answer(c *control, question []byte) {
	w := f.owner.where(f.owner.me)
	c.send(sayHere, question, unsafe.Slice((*byte)(unsafe.Pointer(&w)), C.sizeof_struct_whereabouts))
}

func (f *far) answered(rank int, body []byte) {
	a := answer{rank: rank}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&a.where)), C.sizeof_struct_whereabouts), body[8:])
	f.mu.Lock()
	defer f.mu.Unlock()
	if answers := f.answers[binary.LittleEndian.Uint64(body)]; answers != nil {
		select {
		case answers <- a:
		default: // it said so before
		}
	}
}

// ask collects where all ranks are; who does not answer is missing from the result.
func (f *far) ask() map[int]C.struct_whereabouts {
	answers := make(chan answer, len(f.conns))
	f.mu.Lock()
	f.asked++
	number := f.asked
	f.answers[number] = answers
	f.mu.Unlock()
	for _, c := range f.conns {
		c.send(sayWhere, binary.LittleEndian.AppendUint64(nil, number))
	}
	all := map[int]C.struct_whereabouts{}
	for local, rank := range f.owner.locals {
		all[rank] = f.owner.where(local)
	}
	over := time.After(patience)
	for range f.conns {
		select {
		case a := <-answers:
			all[a.rank] = a.where
			continue
		case <-over:
		}
		break
	}
	f.mu.Lock()
	delete(f.answers, number)
	f.mu.Unlock()
	return all
}

// inquire finds out who is to blame that this rank waited too long, and writes it down for all.
func (b *Backend) inquire() {
	all := b.far.ask()
	own := all[b.config.Rank]
	var late [C.LATE_WORDS]C.uint64_t
	blame := func(rank int) { late[rank/64] |= 1 << (rank % 64) }
	found := false
	for rank := range b.config.Ranks {
		w, answered := all[rank]
		switch {
		case rank == b.config.Rank:
		case answered && disagrees(own, w):
			b.locked(func() { C.gorun_engine_disagree(b.engine, C.int(rank), w.what, w.count) })
			return
		case !answered, w.sequence < own.sequence && w.waits_for < 0 && collective(own.what):
			blame(rank)
			found = true
		}
	}
	if !found {
		blame(culprit(all, int(C.gorun_engine_waited_for(b.engine)), b.config.Rank))
	}
	b.locked(func() { C.gorun_engine_late(b.engine, &late[0]) })
}

// collective says whether a call is one that all ranks make.
func collective(what C.uint64_t) bool {
	switch what & 255 {
	case 0, C.K_SEND, C.K_RECV, C.K_SENDRECV:
		return false
	}
	return true
}

// disagrees says whether two ranks are in the same call of the group and call it differently.
func disagrees(a, b C.struct_whereabouts) bool {
	return a.sequence == b.sequence && collective(a.what) && collective(b.what) && (a.what != b.what || a.count != b.count)
}

// culprit follows who waits for whom: a rank that itself waits for another one is not to blame.
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
