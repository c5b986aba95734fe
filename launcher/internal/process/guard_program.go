package process

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
)

const (
	// guardVerb is the only argument of the guard program.
	guardVerb = "sweep"
	// guardLimit bounds the sweep. It usually takes less than a second; processes in uninterruptible sleep may
	// still die later.
	guardLimit = 30 * time.Second
)

// EnterGuard runs the guard program if this process is a guard. Call it first in the main function of every program
// that may serve as one, and return from main if it reports true: the guard has done its work.
func EnterGuard() bool {
	if len(os.Args) != 2 || os.Args[0] != guardName || os.Args[1] != guardVerb {
		return false
	}
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) // execve has set the file's name
	if launcherAlive() {
		ignoreSignals()
		closeInherited()
		makeThreads(guardThreads)
		go killAfterLink()
	}
	records, _ := io.ReadAll(os.Stdin) // use what could be read
	if state, ok := decodeState(records); ok {
		state.finish()
	}
	return true
}

// finish kills a job and removes its files.
func (s *Guarded) finish() {
	s.target().KillAll(guardLimit)
	s.remove()
	if s.Cgroup != "" {
		_ = cgroup.Open(s.Cgroup).Remove() // an error could not be reported
	}
}

// remove removes the job's files. Files that cannot be removed stay.
func (s *Guarded) remove() {
	for _, o := range s.Owned {
		o.Remove()
	}
	for _, prefix := range s.Numbered {
		RemoveNumbered(prefix)
	}
}

func (s *Guarded) target() Target {
	t := Target{ID: s.ID, Since: s.Since, AtOnce: true}
	if s.Cgroup != "" {
		t.Cgroup = cgroup.Open(s.Cgroup)
	}
	for _, pid := range s.Ranks {
		t.Sessions = append(t.Sessions, Session{SID: pid, Since: s.Since})
	}
	return t
}

// guardThreads is the number of threads that a waiting guard program reserves: one runs Go code, the others block in
// the kernel.
const guardThreads = 5

// ignoredSignals are signals that users and terminals send to end or stop programs. They cannot be blocked by the
// parent, as the Go runtime unblocks them.
var ignoredSignals = [...]unix.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM,
	unix.SIGVTALRM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR,
}

// ignoreSignals does not use os/signal, which only main packages may.
func ignoreSignals() {
	ignore := [4]uint64{1} // a struct sigaction with SIG_IGN
	for _, s := range ignoredSignals {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	}
}

// launcherAlive reports whether the pipe at standard input still has a writer.
func launcherAlive() bool {
	pipe := []unix.PollFd{{Fd: 0}}
	_, err := unix.Poll(pipe, 0)
	// A signal of the Go runtime interrupts even a poll that does not wait, if there is no event.
	return (err == nil || err == unix.EINTR) && pipe[0].Revents&unix.POLLHUP == 0
}

// closeInherited closes descriptors that the launcher itself had inherited: those without close-on-exec, which Go sets
// on everything it opens.
func closeInherited() {
	open, _ := openDescriptors()
	for _, fd := range open {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd >= numStreams && fd != linkDescriptor && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
