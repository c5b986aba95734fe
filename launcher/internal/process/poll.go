package process

import (
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// A tag identifies a descriptor in epoll events: the rank's index in spawner.ranks and which of its descriptors it is.
// Indices are never reused, so a stale event cannot be attributed to a newer rank.
//
//	rank.index << 2 | socketTag, stdout, stderr or exitTag
const (
	socketTag = 0
	exitTag   = 3
	wakeTag   = -1
)

// forever is poll's timeout for none.
const forever = -1

// watch adds fd to epoll, for reading and hang-up.
func (s *spawner) watch(fd, tag int32) error {
	return unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, int(fd),
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: tag})
}

// unwatch must precede every close: a child of another spawner between vfork and execve holds a duplicate, for which
// epoll would go on reporting.
func (s *spawner) unwatch(fd int32) {
	_ = unix.EpollCtl(s.ep, unix.EPOLL_CTL_DEL, int(fd), nil)
}

// poll waits up to timeout milliseconds for events of this spawner's ranks and handles them.
func (s *spawner) poll(timeout int) {
	n := kernel.EpollWait(s.ep, s.events[:], timeout)
	for i := range s.events[:n] {
		s.handle(s.events[i].Fd, s.events[i].Events)
	}
}

func (s *spawner) handle(tag int32, events uint32) {
	if tag == wakeTag {
		var count [8]byte
		_, _ = rawRead(s.wake, count[:])
		return
	}
	r := s.ranks[tag>>2]
	switch which := int(tag & 3); {
	case r == nil: // reaped
	case which == socketTag:
		s.socketReady(r, events)
	case which != exitTag:
		s.streamReady(r, which)
	case !r.exited:
		s.exited(r)
	}
}

// streamReady reads once from a stream of r. Epoll reports what remains after other ranks have had a turn.
func (s *spawner) streamReady(r *rank, stream int) {
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

// read passes what is available, up to the buffer's size, to the sink. It returns the number of bytes, and whether
// more may come.
func (s *spawner) read(r *rank, stream int) (n int, open bool) {
	n, err := rawRead(int(r.end[stream]), s.buf[:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, true
	case err != 0 || n == 0: // a pseudo-terminal reports end-of-file as EIO
		return 0, false
	}
	s.g.sink.Output(r.ID, stream, s.buf[:n])
	return n, true
}

// drain reads what a stream holds now and no more: other processes may keep it open and write without end.
func (s *spawner) drain(r *rank, stream int) {
	left, _ := unix.IoctlGetInt(int(r.end[stream]), unix.TIOCINQ)
	for left > 0 {
		n, open := s.read(r, stream)
		if !open || n == 0 {
			return // epoll reports the end
		}
		left -= n
	}
}

// endStream closes our end of a stream and notifies the sink.
func (s *spawner) endStream(r *rank, stream int) {
	s.unwatch(r.end[stream])
	unix.Close(int(r.end[stream]))
	r.end[stream] = -1
	s.g.sink.Closed(r.ID, stream)
}

// park takes a paused stream out of epoll, which would go on reporting it.
func (s *spawner) park(r *rank, stream int) {
	s.unwatch(r.end[stream])
	s.parked[stream] = append(s.parked[stream], r)
}

// unpark watches resumed streams again.
func (s *spawner) unpark() {
	for stream := range s.parked {
		if s.g.paused[stream].Load() {
			continue
		}
		s.parked[stream] = slices.DeleteFunc(s.parked[stream], func(r *rank) bool {
			return s.watch(r.end[stream], r.index<<2|int32(stream)) != unix.ENOSPC
		})
		if len(s.parked[stream]) > 0 { // this user's limit of watches was reached meanwhile
			time.AfterFunc(watchRetry, func() { s.post(s.unpark) })
		}
	}
}

// watchRetry is the time between attempts to watch a resumed stream.
const watchRetry = time.Second

// Pause stops reading stream 1 or 2 of all ranks, which block in write once their pipes are full. Each spawner thread
// may still deliver what it is reading at the moment.
func (g *Group) Pause(stream int) { g.paused[stream].Store(true) }

// Resume undoes Pause.
func (g *Group) Resume(stream int) {
	if g.paused[stream].Swap(false) {
		g.postAll((*spawner).unpark)
	}
}

// rawRead reads from a non-blocking descriptor and keeps this thread's P. With unix.Read, which may lose the P and
// start another thread, `gorun -n 1 true` takes 8 % longer in paired runs.
func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)))
	return int(n), e
}
