package process

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Members returns the living processes of each session, those that started first
// before the others.
func Members(sessions []int) (map[int][]Proc, error) {
	members := make(map[int][]Proc, len(sessions))
	err := eachMember(sessions, func(p Proc) {
		if !p.dead() {
			members[p.SID] = append(members[p.SID], p)
		}
	})
	for _, list := range members {
		slices.SortStableFunc(list, func(a, b Proc) int { return cmp.Compare(a.Start, b.Start) })
	}
	return members, err
}

// eachMember shows all processes that there are in some sessions.
func eachMember(sessions []int, show func(Proc)) error {
	proc, err := openProc()
	if err != nil {
		return err
	}
	defer proc.close()
	pids, err := proc.pids()
	for _, pid := range pids {
		if p, ok := proc.stat(pid); ok && slices.Contains(sessions, p.SID) {
			show(p)
		}
	}
	return err
}

// Alive reports whether anything of p still runs.
func (p Proc) Alive() bool {
	now, err := Describe(p.PID)
	return err == nil && now.Start == p.Start && !now.dead()
}

// Signal sends sig to p alone, and to nobody who got its pid in the meantime.
func (p Proc) Signal(sig unix.Signal) error { return p.signal(sig, 0) }

// SignalBusy does the same, to a thread of p that uses a CPU at this moment, if there
// is one, so that it is the one that handles the signal.
func (p Proc) SignalBusy(sig unix.Signal) error { return p.signal(sig, p.busyThread()) }

func (p Proc) signal(sig unix.Signal, thread int) error {
	fd, err := p.pin()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if thread != 0 && unix.Tgkill(p.PID, thread, sig) == nil {
		return nil
	}
	return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(fd, sig, nil, 0))
}

// pin returns a pidfd that is certainly p's, or os.ErrProcessDone: it is bound to whoever has the pid now, and only
// then it is looked at whether that is still p.
func (p Proc) pin() (pidfd int, err error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if now, gone := Describe(p.PID); err == unix.ESRCH || gone != nil || now.Start != p.Start {
		_ = unix.Close(fd)
		return -1, os.ErrProcessDone
	}
	return fd, os.NewSyscallError("pidfd_open", err)
}

// Busy reports whether any thread of p uses a CPU at this moment.
func (p Proc) Busy() bool { return p.busyThread() != 0 }

// busyThread is a thread that runs now, 0 if none does.
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

// PreventCore sees to it that no core dump is written of p. Its limit becomes one byte
// and not none: for a program that takes core dumps through a pipe the kernel looks at
// no other limit than this (core(5), do_coredump).
func (p Proc) PreventCore() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.PID, unix.RLIMIT_CORE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = min(limit.Max, 1)
	return os.NewSyscallError("prlimit", unix.Prlimit(p.PID, unix.RLIMIT_CORE, &limit, nil))
}
