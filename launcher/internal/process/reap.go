package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// HasChildren reports whether this process has a child, alive or not yet reaped,
// whoever started it. For one that [Adopts] orphans, no child means that nothing
// at all is left of what it started: the cheapest look there is at the end of a
// job that ended in order, one system call.
func HasChildren() bool {
	_, err := peekZombie()
	return err != unix.ECHILD
}

// ReapOrphans takes the exit statuses of dead children that are not known (see
// Target.Known) and returns how many. The others' are left to those who wait for
// them, so it never calls wait for just any child. The init process of a
// container has to call it now and then, on SIGCHLD for instance; elsewhere the
// system does it when the launcher ends.
func ReapOrphans(known func(pid int) bool) (reaped int) {
	if some, err := peekZombie(); err != nil || !some {
		return 0
	}
	proc, err := openProc()
	if err != nil {
		return 0
	}
	defer proc.close()
	pids, err := proc.pids()
	if err != nil {
		return 0
	}
	self := os.Getpid()
	for _, pid := range pids {
		if p, ok := proc.stat(pid); ok && p.PPID == self && p.dead() && !known(pid) && reap(unix.P_PID, pid) == nil {
			reaped++
		}
	}
	return reaped
}

// peekZombie reports whether a child is dead and not reaped, without reaping it.
// ECHILD says that there is no child whatsoever.
func peekZombie() (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return info.Signo != 0, err
}

// reap takes the exit status of one child, which has to be dead.
func reap(kind, id int) error {
	return unix.Waitid(kind, id, nil, unix.WEXITED|unix.WNOHANG|unix.WALL, nil)
}
