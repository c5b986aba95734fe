package process

import (
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// start starts r and watches it.
func (s *spawner) start(b *batch, r *rank) *StartError {
	if err := s.args.load(&s.child, b.image, r); err != nil {
		return b.failure(r, "prepare", r.program(b), err)
	}
	var ends childEnds
	defer ends.close()
	if err := s.connect(r, &ends); err != nil {
		s.disconnect(r)
		return b.failure(r, "open standard streams", "", err)
	}
	if err := s.connectSocket(r, &ends); err != nil {
		s.disconnect(r)
		return b.failure(r, "make a pair of sockets", "", err)
	}
	if err := s.watchStreams(r); err != nil {
		s.disconnect(r)
		return b.failure(r, opWatch, "", err)
	}
	s.child.Launcher, s.child.OpenFiles, s.child.Cgroup = b.launcher, b.openFiles, s.spawnCgroup(b)
	pid := s.fork(b, r)
	if c := &s.child; c.Errno != 0 {
		s.disconnect(r)
		return b.failure(r, c.Failed.String(), r.failedPath(c.Failed, b), c.Errno)
	}
	s.track(r, pid)
	return nil
}

// spawnCgroup returns the descriptor of the cgroup for the next rank, -1 for none.
func (s *spawner) spawnCgroup(b *batch) int32 {
	if b.common.Cgroup == nil || s.g.noCloneIntoCgroup.Load() {
		return -1
	}
	return int32(b.common.Cgroup.CloneFD())
}

// watchStreams watches what a rank will write to. Nobody polls before track, and the caller closes our copies of the
// rank's ends after it, so end-of-file cannot come before.
func (s *spawner) watchStreams(r *rank) error {
	r.index = int32(len(s.ranks))
	for stream, fd := range r.end {
		if fd >= 0 {
			if err := s.watch(fd, r.index<<2|int32(stream)); err != nil {
				return err
			}
		}
	}
	if r.socket > 0 {
		return s.watch(r.socket, r.index<<2|socketTag)
	}
	return nil
}

// track reports a rank as started and watches for its end.
func (s *spawner) track(r *rank, pid int) {
	s.ranks = append(s.ranks, r)
	s.alive++
	r.pid.Store(int32(pid))
	r.pidfd = s.child.PidFD
	s.g.sink.Started(r.ID, pid)
	if s.child.BindErr != (BindError{}) {
		s.g.sink.BindFailed(r.ID, s.child.BindErr)
	}
	s.watchExit(r)
}

// vfork starts s.child. If the kernel lacks a variant of clone, the group uses the next older one from then on.
func (s *spawner) vfork() (pid int) {
	c := &s.child
	for {
		c.Variant = kernel.Variant(s.g.variant.Load())
		if c.Variant == kernel.Clone3 {
			pid = c.Start()
		} else {
			syscall.ForkLock.Lock()
			pid = c.Start()
			syscall.ForkLock.Unlock()
		}
		if c.Cgroup >= 0 && c.Failed == kernel.StepClone && c.Errno != 0 && c.Errno != syscall.EAGAIN &&
			c.Errno != syscall.ENOMEM {
			s.g.noCloneIntoCgroup.Store(true)
			c.Cgroup = -1
			continue
		}
		if !c.Unsupported() {
			break
		}
		s.g.variant.CompareAndSwap(int32(c.Variant), int32(c.Variant)+1)
	}
	if pid != 0 && c.Errno != 0 { // the child ended before execve
		if c.PidFD >= 0 {
			unix.Close(int(c.PidFD))
		}
		var info siginfo
		_ = waitid(unix.P_PID, pid, &info, 0)
	}
	return pid
}

// childEnds are descriptors for the child only. They stay open in this process until the child has its copies.
type childEnds struct {
	fd [numStreams + 1]int32
	n  int
}

func (c *childEnds) add(fd int32) int32 {
	c.fd[c.n] = fd
	c.n++
	return fd
}

func (c *childEnds) close() {
	for _, fd := range c.fd[:c.n] {
		unix.Close(int(fd))
	}
}

// connect creates r's streams: our ends go into r, the rank's into s.child.
func (s *spawner) connect(r *rank, ends *childEnds) error {
	s.child.Terminal = -1
	for i, stream := range [numStreams]Stream{r.Stdin, r.Stdout, r.Stderr} {
		var err error
		switch stream.Kind {
		case Pipe:
			s.child.FD[i], err = r.connectPipe(i, ends)
		case PTY:
			if s.child.Terminal < 0 {
				s.child.Terminal, err = s.connectPTY(r, ends)
			}
			s.child.FD[i] = s.child.Terminal
		default:
			s.child.FD[i] = s.g.shared.source(i, stream)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// connectPipe makes a pipe for stream i and returns the rank's end.
func (r *rank) connectPipe(i int, ends *childEnds) (int32, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	reader, writer, err := aboveStandardBoth(p)
	if err != nil {
		return -1, err
	}
	if i == stdin {
		r.input.Store(newInput(writer, false))
		return ends.add(reader), nil
	}
	setNonblock(reader) // status flags are per end: the rank's stays blocking
	r.end[i] = reader
	return ends.add(writer), nil
}

// disconnect closes our ends of a rank that could not be started.
func (s *spawner) disconnect(r *rank) {
	for i, fd := range r.end {
		if fd >= 0 {
			s.unwatch(fd)
			unix.Close(int(fd))
			r.end[i] = -1
		}
	}
	if in := r.input.Swap(nil); in != nil {
		in.abandon()
	}
	s.closeSocket(r)
}

// aboveStandardBoth is aboveStandard for two new descriptors. It closes both on error.
func aboveStandardBoth(p [2]int) (first, second int32, err error) {
	if first, err = aboveStandard(p[0]); err != nil {
		unix.Close(p[1])
		return -1, -1, err
	}
	if second, err = aboveStandard(p[1]); err != nil {
		unix.Close(int(first))
		return -1, -1, err
	}
	return first, second, nil
}

// aboveStandard moves fd out of the range 0 to 2, which a host program may have closed and where a child's streams
// go. It closes fd on error.
func aboveStandard(fd int) (int32, error) {
	if fd >= numStreams {
		return int32(fd), nil
	}
	defer unix.Close(fd)
	return duplicate(fd)
}

// duplicate copies fd to a number of 3 or higher, closed on exec.
func duplicate(fd int) (int32, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, numStreams)
	return int32(n), err
}

func setNonblock(fd int32) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
}

// program returns the path that r executes.
func (r *rank) program(b *batch) string {
	if r.Path != "" {
		return r.Path
	}
	return b.common.Path
}

// failedPath returns the file that a failed step refers to, "" for none.
func (r *rank) failedPath(at kernel.Step, b *batch) string {
	switch at {
	case kernel.StepExec:
		return r.program(b)
	case kernel.StepChdir:
		return r.Dir
	}
	return ""
}
