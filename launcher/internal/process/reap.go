package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// HasChildren reports whether this process has a child, alive or a zombie. For a process that [Adopts] orphans, no
// child means that nothing is left of the job, which one system call shows.
func HasChildren() bool {
	_, err := peekZombie()
	return err != unix.ECHILD
}

// ReapOrphans reaps zombie children that are not known (see Target.Known) and returns their number. It leaves known
// children to their waiters, so it never waits for any child. The init process of a container must call it now and
// then; elsewhere init reaps when the launcher ends.
func ReapOrphans(known func(pid int) bool) (reaped int) {
	if found, err := peekZombie(); err != nil || !found {
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

// peekZombie reports whether there is a zombie child, without reaping it. Its error is ECHILD if there is no child.
func peekZombie() (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return info.Signo != 0, err
}

// reap reaps one zombie child.
func reap(kind, id int) error {
	return unix.Waitid(kind, id, nil, unix.WEXITED|unix.WNOHANG|unix.WALL, nil)
}
