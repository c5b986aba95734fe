package process

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
)

// Session is the session of one rank. Its id is the rank's pid.
type Session struct {
	SID int
	// Since is a time before the rank was started, as late as is cheap to know; 0 is always valid.
	Since Ticks
	// Until is a time before the rank was reaped; 0: it has not been reaped. The id of a session that became empty
	// after it may be reused.
	Until Ticks
}

// Target describes the processes of one job on this host.
//
// A process belongs to the job if it is in a rank's session or has the job's marker in its environment; never by
// descent alone, and never if it belongs to another user and we are not root. An ancestor is not enough: in `sleep
// 100 & exec gorun …` the sleep is our child but not the job's. Known is the exception.
type Target struct {
	// ID is the job's element of the marker; "": ignore markers.
	ID       string
	Sessions []Session
	// Since is a time before any process of the job was started: older processes belong to it only by their session. 0
	// means the start of this process, which is right for a launcher only.
	Since Ticks
	// Known is for a process that adopts the orphans of its job (see [Adopts]): every unknown child is an orphan and
	// belongs to the job, whatever its session and environment. Every child that this process started itself must be
	// known before the system call that creates it, unless it is older than Since. Nil: ignore descent.
	Known func(pid int) bool
	// AtOnce has KillAll kill what its first scan finds without stopping it before. It is for a guard, which others may
	// kill at any moment, and then would leave stopped processes behind. Ranks may see each other die: nobody reads
	// what they say of it.
	AtOnce bool
	// Cgroup is the job's own; all processes in it belong to the job. Nil: none.
	Cgroup *cgroup.Group
}

const (
	// freezeLimit bounds the time for which processes are stopped, waiting for no new ones to appear, before they are
	// killed anyway.
	freezeLimit = 250 * time.Millisecond
	// guardTimeout is the time for the guard of an inner job to clean up when all else is dead. It usually takes
	// milliseconds.
	guardTimeout = time.Second
	// rescanLimit bounds one scan, and maxIncompleteScans the number of empty ones that reach it, on a host where
	// others fork without pause.
	rescanLimit        = 300 * time.Millisecond
	maxIncompleteScans = 4
	// cgroupTimeout is the time for the processes of a cgroup to die.
	cgroupTimeout = time.Second
	// deathTimeout is the time for killed processes to die before the next scan.
	deathTimeout = 100 * time.Millisecond
)

// Find returns the living processes of the job, without zombies.
func (t Target) Find() ([]Proc, error) {
	s, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.find()
}

// Terminate sends SIGTERM to every process of the job, to [Leaders] first and to others once their leader is gone, and
// waits up to limit until none is left. Helpers whose leader is still there then get SIGTERM, too, and [LastCall] to
// end. It reports whether none is left.
func (t Target) Terminate(limit time.Duration) bool {
	s, err := t.begin()
	if err != nil {
		return false
	}
	defer s.close()
	signalled := map[identity]bool{}
	for deadline, late := time.Now().Add(limit), false; ; {
		found, err := s.find()
		switch {
		case err != nil:
			return false
		case len(found) == 0 && s.conclusive():
			return true
		case time.Now().Before(deadline):
		case late:
			return false
		default:
			deadline, late = time.Now().Add(LastCall), true
		}
		due, fresh := found, false
		if !late {
			due = Leaders(found)
		}
		for _, p := range due {
			if !signalled[p.identity()] {
				fresh, signalled[p.identity()] = true, true
				s.signal(p, unix.SIGTERM)
			}
		}
		if late && !fresh {
			return false
		}
		s.await(due, deadline)
	}
}

// KillAll kills every process of the job and returns those that still exist after limit, usually none but processes in
// uninterruptible sleep. It stops all processes first, until a scan finds no new one: a fork bomb, or a supervisor
// that replaces dead workers, is then unable to start more.
//
// Guards of inner jobs come last: they end by themselves once their launcher is dead, and remove its files before.
func (t Target) KillAll(limit time.Duration) (left []Proc) {
	defer t.killCgroup()
	deadline := time.Now().Add(limit)
	s, err := t.begin()
	for ; err != nil; s, err = t.begin() {
		if !shortOfDescriptors(err) || time.Now().After(deadline) {
			return nil
		}
		time.Sleep(time.Millisecond) // nothing tells of a free descriptor
	}
	defer s.close()
	if t.AtOnce {
		_ = s.scan(func(p Proc) {
			if !s.isGuard(p) {
				s.signal(p, unix.SIGKILL)
			}
		})
	}
	for {
		frozen, guards := s.freeze(deadline)
		now := time.Now()
		if len(frozen)+len(guards) == 0 && s.conclusive() {
			return nil
		}
		s.signalAll(frozen, unix.SIGKILL)
		switch {
		case !now.Before(deadline):
			s.signalAll(guards, unix.SIGKILL)
			return slices.Concat(frozen, guards)
		case len(frozen) > 0:
			s.await(frozen, earlier(deadline, now.Add(deathTimeout)))
		case len(guards) > 0:
			s.signalAll(guards, unix.SIGCONT)
			s.await(guards, earlier(deadline, now.Add(guardTimeout)))
			s.killGuards = true
		}
	}
}

// killCgroup kills what has escaped all scans, such as the youngest children of a fork bomb.
func (t Target) killCgroup() {
	if t.Cgroup != nil {
		t.Cgroup.Kill(cgroupTimeout)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sweep is a series of scans of /proc for a target's processes. It belongs to one goroutine.
type sweep struct {
	Target
	proc     *procDir
	self     int
	selfSID  int
	sessions map[int]Session
	// held are sessions whose rank was reaped and in which an older process has been seen: their id was never reused.
	held map[int]bool
	// marked are sessions in which a process with our marker was seen a moment ago. The job's processes share sessions
	// with no others, and reading a marker is slow: the kernel blocks us while its owner forks.
	marked map[int]bool

	// State of the current scan.
	members    map[int]bool      // pids in the cgroup
	visited    map[identity]bool // passed to visit
	previous   map[identity]bool // visited by the scan before
	undecided  []Proc            // verdict pending until the scan's end
	incomplete bool              // it ran out of time

	incompleteScans int  // that found nothing
	killGuards      bool // the guards of inner jobs have had their time
}

func (t Target) begin() (*sweep, error) {
	proc, err := openProc()
	if err != nil {
		return nil, err
	}
	s := &sweep{
		Target: t, proc: proc, self: os.Getpid(), sessions: make(map[int]Session, len(t.Sessions)),
		held: map[int]bool{}, marked: map[int]bool{},
	}
	s.selfSID, _ = unix.Getsid(0)
	for _, session := range t.Sessions {
		s.sessions[session.SID] = session
	}
	if s.Since == 0 {
		own, _ := proc.stat(s.self)
		s.Since = own.Start
	}
	return s, nil
}

// conclusive reports whether a scan that found nothing proves that nothing is left: it was complete, or several
// incomplete ones agree.
func (s *sweep) conclusive() bool {
	if s.proc.failed != nil {
		return false
	}
	if s.incomplete {
		s.incompleteScans++
	}
	return !s.incomplete || s.incompleteScans >= maxIncompleteScans
}

func (s *sweep) close() { s.proc.close() }

func (s *sweep) find() (found []Proc, err error) {
	err = s.scan(func(p Proc) { found = append(found, p) })
	return found, err
}

// scan calls visit for every living process of the job as soon as it is found, and misses none.
//
// One pass over /proc can miss a chain of processes that fork and exit: the listed one is gone when it is read, and
// its child is not in the list. But the child's pid was allocated meanwhile. So whenever a listed process has
// vanished, scan also examines the pids allocated since, until every process was seen alive and classified, or is
// dead together with its descendants.
func (s *sweep) scan(visit func(Proc)) error {
	s.visited, s.undecided, s.proc.failed = map[identity]bool{}, nil, nil
	newest := s.proc.newest()
	pids, err := s.proc.pids()
	vanishedOne, retry := s.examine(pids, visit)
	for limit := time.Now().Add(rescanLimit); err == nil; {
		if s.incomplete = vanishedOne || len(retry) > 0; !s.incomplete || time.Now().After(limit) {
			break
		}
		var all bool
		before := newest
		newest = s.proc.newest()
		pids, all, err = s.proc.allocatedBetween(before, newest)
		vanishedOne, retry = s.examine(append(pids, retry...), visit)
		vanishedOne = vanishedOne || !all
	}
	for _, p := range s.undecided {
		if s.held[p.SID] {
			s.visit(p, visit)
		}
	}
	// An exiting process that has freed its memory cannot be recognised any more, but may hold a port or a device until
	// its last thread has ended.
	for id := range s.previous {
		if p, ok := s.proc.stat(id.pid); ok && p.Start == id.start {
			s.visit(p, visit)
		}
	}
	s.previous = s.visited
	return cmp.Or(err, s.proc.failed)
}

// examine visits those of pids that belong to the job. It reports whether one has vanished, and returns those to
// examine again because they are in execve and have no environment yet.
func (s *sweep) examine(pids []int, visit func(Proc)) (vanishedOne bool, retry []int) {
	s.readCgroup()
	for _, pid := range pids {
		if pid == s.self {
			continue
		}
		p, ok := s.proc.stat(pid)
		if !ok {
			vanishedOne = true
			continue
		}
		switch s.classify(p) {
		case ours:
			s.visit(p, visit)
		case pending:
			s.undecided = append(s.undecided, p)
		case vanished:
			vanishedOne = true
		case executing:
			retry = append(retry, pid)
		case foreign:
		}
	}
	return vanishedOne, retry
}

func (s *sweep) readCgroup() {
	if s.Cgroup == nil {
		return
	}
	s.members = map[int]bool{}
	for _, pid := range s.Cgroup.Procs() {
		s.members[pid] = true
	}
}

// visit calls visit once per process, unless the process is dead or another user's, or is a thread: /proc does not list
// threads but can open them.
func (s *sweep) visit(p Proc, visit func(Proc)) {
	if s.visited[p.identity()] || p.dead() || unix.Kill(p.PID, 0) == unix.EPERM || isThread(p.PID) {
		return
	}
	s.visited[p.identity()] = true
	visit(p)
}

// isThread reports whether a tid is not a process's pid, as far as the kernel tells.
func isThread(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == unix.EINVAL || err == unix.ENOENT // before and since Linux 6.9
}

// verdict says whether a process belongs to the job.
type verdict int

const (
	foreign verdict = iota
	pending         // ours if its session turns out to be held
	ours
	vanished  // it died while it was examined
	executing // in execve
)

func (s *sweep) classify(p Proc) verdict {
	bySession := s.bySession(p)
	switch {
	case bySession == ours:
		return ours
	case p.dead():
		return vanished
	case s.members[p.PID] && s.Cgroup.Has(p.PID): // checked again: the pid may have been reused
		return ours
	case p.Start < s.Since: // such as a master connection of ssh, even if we have adopted it
		return bySession
	case s.Known != nil && p.PPID == s.self && !s.Known(p.PID):
		return ours
	case s.ID == "":
		return bySession
	}
	marker, state := s.proc.marker(p)
	switch {
	case state != foreign:
		return state
	case marker.Has(s.ID):
		s.markSession(p)
		return ours
	}
	return bySession
}

// markSession attributes the session of a marked process to the job, unless the session's leader lives and is not the
// job's: then the marker was copied into another session, whose other processes are not ours.
func (s *sweep) markSession(p Proc) {
	if p.SID <= 0 || p.SID == s.selfSID {
		return
	}
	if leader, ok := s.proc.stat(p.SID); ok && p.SID != p.PID && !leader.dead() {
		marker, _ := s.proc.marker(leader)
		if leader.Start < s.Since || !marker.Has(s.ID) {
			return
		}
	}
	s.marked[p.SID] = true
}

// bySession classifies by session. A session's id is not reused while a process is in the session. Once the rank was
// reaped the session may have become empty and its id reused, so a younger process is pending until an older one, dead
// or alive, is seen in the same session.
func (s *sweep) bySession(p Proc) verdict {
	if s.marked[p.SID] && p.Start >= s.Since {
		return ours
	}
	session, ok := s.sessions[p.SID]
	if !ok || p.SID <= 0 || p.Start < session.Since {
		return foreign
	}
	if session.Until != 0 && p.Start > session.Until {
		return pending
	}
	s.held[p.SID] = true
	return ours
}

// signal sends sig to p and reports whether that succeeded.
func (s *sweep) signal(p Proc, sig unix.Signal) bool {
	err := p.Signal(sig)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err == nil
	}
	return unix.Kill(p.PID, sig) == nil // no pidfd, such as for lack of descriptors
}

func (s *sweep) signalAll(procs []Proc, sig unix.Signal) {
	for _, p := range procs {
		s.signal(p, sig)
	}
}

// stop stops p and, if the whole session is ours, its process group: p may have forked and exited by now, but a signal
// to a group is atomic with respect to forks in it.
func (s *sweep) stop(p Proc) {
	s.signal(p, unix.SIGSTOP)
	whole := s.marked[p.SID] || s.held[p.SID]
	if whole && p.PGID > 1 && p.PGID != unix.Getpgrp() {
		_ = unix.Kill(-p.PGID, unix.SIGSTOP)
	}
}

// freeze stops the job's processes until a scan finds no new one. It returns the stopped processes and, separately, the
// guards of inner jobs, which it does not stop.
func (s *sweep) freeze(deadline time.Time) (frozen, guards []Proc) {
	seen := map[identity]bool{}
	clear(s.marked)
	limit := earlier(deadline, time.Now().Add(freezeLimit))
	for {
		fresh := false
		_ = s.scan(func(p Proc) {
			switch {
			case seen[p.identity()]:
				return
			case !s.killGuards && s.isGuard(p):
				guards = append(guards, p)
			default:
				s.stop(p)
				frozen, fresh = append(frozen, p), true
			}
			seen[p.identity()] = true
		})
		if !fresh || !time.Now().Before(limit) {
			return frozen, guards
		}
	}
}

// isGuard reports whether p is a guard; argv[0] is the same before and after it executes the Go program.
func (s *sweep) isGuard(p Proc) bool {
	argv, err := s.proc.read(strconv.Itoa(p.PID) + "/cmdline")
	return err == nil && bytes.HasPrefix(argv, []byte(guardName+"\x00"))
}

// await waits until all procs are dead, or until deadline.
func (s *sweep) await(procs []Proc, deadline time.Time) {
	for _, p := range procs {
		if !s.awaitOne(p, deadline) {
			return
		}
	}
}

// awaitOne reports false when the deadline has passed. Without a pidfd it only sleeps briefly.
func (s *sweep) awaitOne(p Proc, deadline time.Time) bool {
	fd, err := p.openPidfd()
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return true
	case err != nil:
		time.Sleep(time.Millisecond)
		return true
	}
	defer unix.Close(fd)
	return awaitExit(fd, deadline)
}

// awaitExit waits until the process of a pidfd is dead and reports whether it is. A zero deadline means forever.
func awaitExit(pidfd int, deadline time.Time) bool {
	for {
		timeout := -1
		if !deadline.IsZero() {
			timeout = max(0, int((time.Until(deadline)+time.Millisecond-1)/time.Millisecond))
		}
		poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		switch n, err := unix.Poll(poll, timeout); {
		case n > 0:
			return true
		case err != unix.EINTR:
			return false
		}
	}
}
