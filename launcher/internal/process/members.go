package process

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Members returns the living processes of each session in order of their start.
func Members(sessions []int) (map[int][]Proc, error) {
	members := make(map[int][]Proc, len(sessions))
	err := eachProcess(func(p Proc) {
		if !p.dead() && slices.Contains(sessions, p.SID) {
			members[p.SID] = append(members[p.SID], p)
		}
	})
	for _, list := range members {
		slices.SortStableFunc(list, func(a, b Proc) int { return cmp.Compare(a.Start, b.Start) })
	}
	return members, err
}

// eachProcess calls show for every process of the host, zombies included.
func eachProcess(show func(Proc)) error {
	proc, err := openProc()
	if err != nil {
		return err
	}
	defer proc.close()
	pids, err := proc.pids()
	for _, pid := range pids {
		if p, ok := proc.stat(pid); ok {
			show(p)
		}
	}
	return err
}

// Alive reports whether any thread of p still runs.
func (p Proc) Alive() bool {
	now, err := Describe(p.PID)
	return err == nil && now.Start == p.Start && !now.dead()
}

// Signal sends sig to p, and never to a process that reuses its pid.
func (p Proc) Signal(sig unix.Signal) error { return p.signal(sig, 0) }

// SignalBusy is Signal, directed at a thread of p that is on a CPU right now, if there is one.
func (p Proc) SignalBusy(sig unix.Signal) error { return p.signal(sig, p.busyThread()) }

func (p Proc) signal(sig unix.Signal, thread int) error {
	fd, err := p.openPidfd()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if thread != 0 && unix.Tgkill(p.PID, thread, sig) == nil {
		return nil
	}
	return os.NewSyscallError("pidfd_send_signal", signalPidfd(fd, p.PID, sig))
}

// signalPidfd signals the process of a pidfd: by its pid where a seccomp filter, such as that of Docker before 20.10,
// refuses pidfd_send_signal.
func signalPidfd(pidfd, pid int, sig unix.Signal) error {
	err := unix.PidfdSendSignal(pidfd, sig, nil, 0)
	if err == unix.EPERM || err == unix.ENOSYS {
		return unix.Kill(pid, sig)
	}
	return err
}

// openPidfd returns a pidfd of p, or os.ErrProcessDone. It opens the pid first and then checks that it is still p's.
func (p Proc) openPidfd() (pidfd int, err error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if now, unread := Describe(p.PID); err == unix.ESRCH || now.Start != p.Start {
		_ = unix.Close(fd)
		if shortOfDescriptors(unread) {
			return -1, unread
		}
		return -1, os.ErrProcessDone
	}
	return fd, os.NewSyscallError("pidfd_open", err)
}

// Busy reports whether any thread of p is on a CPU right now.
func (p Proc) Busy() bool { return p.busyThread() != 0 }

// busyThread returns the tid of a running thread, 0 for none.
func (p Proc) busyThread() int {
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(p.PID) + "/task/*/stat") // the pattern is good
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if thread, ok := parseStat(text); ok && thread.State == 'R' {
			return thread.PID
		}
	}
	return 0
}

// PreventCore prevents a core dump of p. It sets the limit to one byte, not 0: if core dumps are piped to a program,
// the kernel checks for exactly that value (core(5), do_coredump).
func (p Proc) PreventCore() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.PID, unix.RLIMIT_CORE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = min(limit.Max, 1)
	return os.NewSyscallError("prlimit", unix.Prlimit(p.PID, unix.RLIMIT_CORE, &limit, nil))
}
