package process

import (
	"slices"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
)

// Fork asks a fork server for a rank's process instead of vfork and execve. The process must be a child of this one,
// lead a session, and be killed when this process ends.
type Fork struct {
	Path, Dir string // Dir "": this process's
	Argv, Env []string
	Files     []int // become descriptors 0, 1, 2 and, if there are four, 3
	Binding   Binding
	Cgroup    *cgroup.Group // nil: none
}

// fork has the batch's fork server make r's process. If it cannot, r starts as it would without one.
func (s *spawner) fork(b *batch, r *rank) (pid int) {
	if b.common.Fork == nil || s.child.Terminal >= 0 {
		return s.vfork()
	}
	request := Fork{
		Path: r.program(b), Dir: r.Dir, Argv: r.Argv, Env: slices.Concat(b.common.Env, r.Env),
		Binding: r.Binding, Cgroup: b.common.Cgroup,
	}
	if request.Argv == nil {
		request.Argv = b.common.Argv
	}
	for _, fd := range append(s.child.FD[:], s.child.Socket) {
		if fd >= 0 {
			request.Files = append(request.Files, int(fd))
		}
	}
	pid, failed, err := b.common.Fork(request)
	if err != nil {
		return s.vfork()
	}
	s.child.Errno, s.child.BindErr, s.child.PidFD = 0, failed, -1
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		s.child.PidFD = int32(fd)
	}
	return pid
}
