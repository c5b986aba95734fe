package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// start starts r and takes it into this spawner's care.
func (s *spawner) start(j *start, r *rank) *StartError {
	if err := s.args.load(&s.child, j.image, r); err != nil {
		return j.failure(r, "prepare", r.program(j), err)
	}
	var theirs childEnds
	defer theirs.close()
	if err := s.connect(r, &theirs); err != nil {
		r.disconnect()
		return j.failure(r, "open standard streams", "", err)
	}
	if err := s.connectSocket(r, &theirs); err != nil {
		r.disconnect()
		return j.failure(r, "make a pair of sockets", "", err)
	}
	s.child.Launcher, s.child.OpenFiles = j.launcher, j.openFiles
	s.child.Patient = !s.proven(j, r)
	s.child.Cgroup = s.birthplace(j)
	pid := s.vfork()
	if c := &s.child; c.Errno != 0 {
		r.disconnect()
		return j.failure(r, c.Failed.String(), r.failedPath(c.Failed, j), c.Errno)
	}
	s.last = origin{j, r.Path, r.Dir}
	s.adopt(r, pid)
	return nil
}

// birthplace is the cgroup for the next rank, -1: none.
func (s *spawner) birthplace(j *start) int32 {
	if j.common.Cgroup == nil || s.g.nobody.Load() {
		return -1
	}
	return int32(j.common.Cgroup.BirthFD())
}

// origin is where a rank's program and directory come from.
type origin struct {
	start     *start
	path, dir string
}

// proven reports that the rank started just before has executed the same file in
// the same directory, so that this start can be expected to be as quick.
func (s *spawner) proven(j *start, r *rank) bool { return s.last == origin{j, r.Path, r.Dir} }

// adopt watches a rank that runs, and says so. Our copies of the rank's ends
// may still be open: end-of-file waits until start has closed them.
func (s *spawner) adopt(r *rank, pid int) {
	r.index = int32(len(s.ranks))
	s.ranks = append(s.ranks, r)
	s.alive++
	r.pid.Store(int32(pid))
	r.pidfd = s.child.PidFD
	s.g.sink.Started(r.ID, pid)
	if s.child.Bound != (Bound{}) {
		s.g.sink.Unbound(r.ID, s.child.Bound)
	}
	for stream, fd := range r.end {
		if fd >= 0 {
			s.watch(fd, r.index<<2|int32(stream))
		}
	}
	if r.socket > 0 {
		s.watch(r.socket, r.index<<2|socketTag)
	}
	s.watchExit(r)
}

// vfork starts s.child, in the next older way for good when one is not supported.
func (s *spawner) vfork() (pid int) {
	c := &s.child
	for {
		c.Way = kernel.Way(s.g.way.Load())
		if c.Way == kernel.Clone3 {
			pid = c.Start()
		} else {
			syscall.ForkLock.Lock()
			pid = c.Start()
			syscall.ForkLock.Unlock()
		}
		if c.Cgroup >= 0 && c.Failed == kernel.StepClone && c.Errno != 0 && c.Errno != syscall.EAGAIN &&
			c.Errno != syscall.ENOMEM {
			s.g.nobody.Store(true)
			c.Cgroup = -1
			continue
		}
		if !c.Refused() {
			break
		}
		s.g.way.CompareAndSwap(int32(c.Way), int32(c.Way)+1)
	}
	if pid != 0 && c.Errno != 0 {
		s.bury(pid)
	}
	return pid
}

// bury waits for a child that could not become its program.
func (s *spawner) bury(pid int) {
	if s.child.PidFD >= 0 {
		syscall.Close(int(s.child.PidFD))
	}
	var info siginfo
	waitid(unix.P_PID, pid, &info, 0)
}

// childEnds are the descriptors that only a child needs. They stay open in us
// until it has them.
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
		syscall.Close(int(fd))
	}
}

// connect makes r's streams: our ends in r, the rank's in s.child.
func (s *spawner) connect(r *rank, theirs *childEnds) error {
	s.child.Terminal = -1
	for i, stream := range [numStreams]Stream{r.Stdin, r.Stdout, r.Stderr} {
		var err error
		switch stream.Kind {
		case Pipe:
			s.child.FD[i], err = r.connectPipe(i, theirs)
		case PTY:
			if s.child.Terminal < 0 {
				s.child.Terminal, err = s.connectPTY(r, theirs)
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
func (r *rank) connectPipe(i int, theirs *childEnds) (int32, error) {
	p, err := pipe()
	if err != nil {
		return -1, err
	}
	reader, writer := p[0], p[1]
	if i == stdin {
		r.input.Store(newInput(writer, false))
		return theirs.add(reader), nil
	}
	// Each end has its own status flags: the rank's stays blocking.
	setNonblock(reader)
	r.end[i] = reader
	return theirs.add(writer), nil
}

// disconnect closes our ends of a rank that could not be started. Nobody
// watches them yet.
func (r *rank) disconnect() {
	for i, fd := range r.end {
		if fd >= 0 {
			syscall.Close(int(fd))
			r.end[i] = -1
		}
	}
	if in := r.input.Swap(nil); in != nil {
		in.abandon()
	}
	if r.socket > 0 {
		syscall.Close(int(r.socket))
		r.socket = 0
	}
}

// pipe is pipe2 with both ends closed on exec and above the standard numbers,
// which a host program may have closed.
func pipe() (p [2]int32, err error) {
	if _, _, e := syscall.RawSyscall(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&p)), syscall.O_CLOEXEC, 0); e != 0 {
		return p, e
	}
	return lift(p)
}

// lift moves both descriptors out of 0 to 2. It closes them if it fails.
func lift(p [2]int32) (_ [2]int32, err error) {
	for i := range p {
		if p[i], err = aboveStandard(p[i]); err != nil {
			syscall.Close(int(p[1-i]))
			return p, err
		}
	}
	return p, nil
}

// aboveStandard moves fd out of 0 to 2, where a child's streams go. It closes fd
// if it fails.
func aboveStandard(fd int32) (int32, error) {
	if fd >= numStreams {
		return fd, nil
	}
	defer syscall.Close(int(fd))
	return duplicate(fd)
}

// duplicate copies fd to a number above the standard ones, closed on exec.
func duplicate(fd int32) (int32, error) {
	n, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, numStreams)
	if e != 0 {
		return -1, e
	}
	return int32(n), nil
}

func setNonblock(fd int32) {
	syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFL, syscall.O_NONBLOCK)
}

// program is the path that r executes.
func (r *rank) program(j *start) string {
	if r.Path != "" {
		return r.Path
	}
	return j.common.Path
}

// failedPath is the file that a step was about.
func (r *rank) failedPath(at kernel.Step, j *start) string {
	switch at {
	case kernel.StepExec:
		return r.program(j)
	case kernel.StepChdir:
		return r.Dir
	}
	return ""
}
