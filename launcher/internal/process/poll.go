package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// A tag is what epoll gives back for a descriptor: the rank's index and what of
// it is ready. Indices are never used twice, so that an event for something that
// was closed meanwhile cannot be taken for its successor's.
//
//	rank.index << 2 | socketTag, stdout, stderr or exitTag
const (
	socketTag = 0
	exitTag   = 3
	wakeTag   = -1
)

// forever is poll's timeout for none.
const forever = -1

// watch has epoll report fd, when it can be read or has ended, by tag.
func (s *spawner) watch(fd, tag int32) syscall.Errno {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: tag}
	return s.control(syscall.EPOLL_CTL_ADD, fd, &ev)
}

// unwatch must come before every close: a child of another spawner between vfork
// and exec still holds the descriptor's twin, for which epoll would go on.
func (s *spawner) unwatch(fd int32) {
	s.control(syscall.EPOLL_CTL_DEL, fd, nil)
}

func (s *spawner) control(op int, fd int32, ev *syscall.EpollEvent) syscall.Errno {
	_, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(s.ep), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(ev)), 0, 0)
	return e
}

// poll handles what has happened to this spawner's ranks, and waits for that up
// to timeout milliseconds.
func (s *spawner) poll(timeout int) {
	n := kernel.EpollWait(s.ep, s.events[:], timeout)
	for i := range s.events[:n] {
		s.handle(s.events[i].Fd, s.events[i].Events)
	}
}

func (s *spawner) handle(tag int32, events uint32) {
	if tag == wakeTag {
		var count [8]byte
		syscall.RawSyscall(syscall.SYS_READ, uintptr(s.wake), uintptr(unsafe.Pointer(&count)), uintptr(len(count)))
		return
	}
	r := s.ranks[tag>>2]
	switch what := int(tag & 3); {
	case r == nil: // reaped
	case what == socketTag:
		s.spoke(r, events)
	case what != exitTag:
		s.ready(r, what)
	case !r.exited:
		s.exited(r)
	}
}

// ready reads once from a stream of r. Once, because epoll reports what remains
// and other ranks have a turn meanwhile.
func (s *spawner) ready(r *rank, stream int) {
	if r.end[stream] < 0 {
		return
	}
	if s.g.paused[stream].Load() {
		s.park(r, stream)
		return
	}
	if _, open := s.read(r, stream); !open {
		s.endStream(r, stream)
	}
}

// read hands what can be read now, up to the buffer's size, to the sink. It
// reports the number of bytes and whether there may be more some time.
func (s *spawner) read(r *rank, stream int) (n int, open bool) {
	r1, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(r.end[stream]), uintptr(unsafe.Pointer(&s.buf)),
		uintptr(len(s.buf)))
	switch {
	case e == syscall.EAGAIN || e == syscall.EINTR:
		return 0, true
	case e != 0 || r1 == 0: // EIO is how a pseudo-terminal says end-of-file
		return 0, false
	}
	s.g.sink.Output(r.ID, stream, s.buf[:r1])
	return int(r1), true
}

// drain reads what is in a stream now, and no more: others may hold it open and
// write without end.
func (s *spawner) drain(r *rank, stream int) {
	var have int32
	if _, _, e := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(r.end[stream]), unix.TIOCINQ,
		uintptr(unsafe.Pointer(&have))); e != 0 {
		return
	}
	for have > 0 {
		n, open := s.read(r, stream)
		if !open || n == 0 {
			return // its end is reported by epoll
		}
		have -= int32(n)
	}
}

// endStream closes our end of a stream and tells the sink.
func (s *spawner) endStream(r *rank, stream int) {
	s.unwatch(r.end[stream])
	syscall.Close(int(r.end[stream]))
	r.end[stream] = -1
	s.g.sink.Closed(r.ID, stream)
}

// park takes a paused stream out of epoll, which has no other way not to report it.
func (s *spawner) park(r *rank, stream int) {
	s.unwatch(r.end[stream])
	s.parked[stream] = append(s.parked[stream], r)
}

// unpark takes up the streams that are no longer paused.
func (s *spawner) unpark() {
	for stream := range s.parked {
		if s.g.paused[stream].Load() {
			continue
		}
		for _, r := range s.parked[stream] {
			s.watch(r.end[stream], r.index<<2|int32(stream))
		}
		s.parked[stream] = s.parked[stream][:0]
	}
}

// Pause stops reading stream 1 or 2 of all ranks, which then wait in their
// writes once their pipes are full. Each spawner thread may hand over what it is
// reading at the moment.
func (g *Group) Pause(stream int) { g.paused[stream].Store(true) }

// Resume undoes Pause.
func (g *Group) Resume(stream int) {
	if g.paused[stream].Swap(false) {
		g.postAll((*spawner).unpark)
	}
}
