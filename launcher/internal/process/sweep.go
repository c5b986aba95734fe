package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
)

// Session is the session of one rank: its id is the rank's pid.
type Session struct {
	SID int
	// Since is a time at which the rank did not run yet, as near as is cheap to
	// know; 0 is always true.
	Since Ticks
	// Until is a time at which the rank, dead perhaps, had not been reaped yet;
	// 0 means that it has not been reaped so far. The number of a session that
	// emptied later may name a stranger's.
	Until Ticks
}

// Target is what a sweep looks for: the processes of one job on this host.
//
// A process belongs to the job by the session of a rank or by the job's marker
// in its environment, never by descent alone, and never if it belongs to
// another user and we are not root. It is not enough that an ancestor belongs:
// in `sleep 100 & exec gorun …` the sleep is our child and none of our
// business. The exception is Known.
type Target struct {
	// ID is the job's element of the marker; with "" markers do not count.
	ID       string
	Sessions []Session
	// Since is a time at which no process of the job ran yet: older ones belong to it by
	// their session or not at all. 0 is the start of this process, which is
	// right for a launcher and wrong for anybody else.
	Since Ticks
	// Known is for a process that adopts the orphans of its job (see [Adopts]):
	// every child of ours that is not known is such an orphan and belongs to the
	// job, whatever it did to its session and environment. All children that this
	// process started itself have to be known, whatever they are for, from before
	// the system call that makes them, unless they are older than Since. Nil: descent
	// does not count.
	Known func(pid int) bool
	// Cgroup is the job's own, whose processes belong to it whatever else they are;
	// nil: there is none.
	Cgroup *cgroup.Group
}

const (
	// freezeLimit bounds the time for which processes are stopped in the hope that
	// no new ones appear, before they are killed anyway.
	freezeLimit = 250 * time.Millisecond
	// guardPatience is how long the guard of an inner job has to clean up when all
	// else is dead, before it goes too. Milliseconds will do on an idle host.
	guardPatience = time.Second
	// chaseLimit bounds one look at /proc, and enoughLooks the number of such long
	// ones in vain, on a host where others fork without pause.
	chaseLimit  = 300 * time.Millisecond
	enoughLooks = 4
	// groupLimit is how long the processes of a cgroup have to die.
	groupLimit = time.Second
	// deathPatience is how long the killed have to die before the next look.
	deathPatience = 100 * time.Millisecond
)

// Find returns the living processes of the job. Zombies do not count.
func (t Target) Find() ([]Proc, error) {
	s, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.find()
}

// Signal sends sig to every process of the job that a look at /proc finds and
// returns how many got it.
func (t Target) Signal(sig unix.Signal) (n int) {
	s, err := t.begin()
	if err != nil {
		return 0
	}
	defer s.close()
	_ = s.scan(func(p Proc) {
		if s.signal(p, sig) {
			n++
		}
	})
	return n
}

// WaitGone waits until no process of the job is left, or for limit, and reports
// whether that is so.
func (t Target) WaitGone(limit time.Duration) bool {
	s, err := t.begin()
	if err != nil {
		return false
	}
	defer s.close()
	for deadline := time.Now().Add(limit); ; {
		found, err := s.find()
		if err == nil && len(found) == 0 && s.convinced() {
			return true
		}
		if err != nil || !time.Now().Before(deadline) {
			return false
		}
		s.await(found, deadline)
	}
}

// KillAll ends every process of the job and returns those that are still there
// after limit, which is no more than the ones that the kernel cannot end yet
// (state D). Processes are first stopped, all of them, until a look at /proc
// finds no new one: what forks as fast as it can, or starts a new worker for
// each that dies, has nothing left to do it with when the killing begins.
//
// The guard of a job inside this one goes last: it ends by itself when its
// launcher is dead, and removes that launcher's files before.
func (t Target) KillAll(limit time.Duration) (left []Proc) {
	s, err := t.begin()
	if err != nil {
		return nil
	}
	defer s.close()
	defer s.killGroup()
	for deadline := time.Now().Add(limit); ; {
		frozen, guards := s.freeze(deadline)
		now := time.Now()
		if len(frozen)+len(guards) == 0 && s.convinced() {
			return nil
		}
		s.signalAll(frozen, unix.SIGKILL)
		switch {
		case !now.Before(deadline):
			s.signalAll(guards, unix.SIGKILL)
			return slices.Concat(frozen, guards)
		case len(frozen) > 0:
			s.await(frozen, earlier(deadline, now.Add(deathPatience)))
		case len(guards) > 0:
			s.signalAll(guards, unix.SIGCONT)
			s.await(guards, earlier(deadline, now.Add(guardPatience)))
			s.impatient = true
		}
	}
}

// killGroup ends who escaped all looks, such as the youngest of a process that
// forks without pause.
func (s *sweep) killGroup() {
	if s.Cgroup != nil {
		s.Cgroup.Kill(groupLimit)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sweep is one hunt for a target's processes, over several looks at /proc.
type sweep struct {
	Target
	proc     *procDir
	self     int
	selfSID  int
	sessions map[int]Session
	// held are sessions whose rank was reaped and in which a process from before
	// has been seen: their number has never been free for a stranger.
	held map[int]bool
	// learned are sessions in which a process with our marker was seen a moment
	// ago. Ranks and their children come to share a session with nobody else, and
	// a marker takes long to read: the kernel makes us wait while its owner forks.
	learned map[int]bool
	// What the present look has shown, what it cannot tell yet, and whether it ran
	// out of time.
	members map[int]bool // pids in the cgroup
	shown   map[identity]bool
	living  map[identity]bool // shown by the look before
	doubts  []Proc
	unsure  bool
	// emptyLooks counts looks that found nothing and ran out of time.
	emptyLooks int
	// impatient: the guards of inner jobs had their time.
	impatient bool
}

func (t Target) begin() (*sweep, error) {
	proc, err := openProc()
	if err != nil {
		return nil, err
	}
	s := &sweep{
		Target: t, proc: proc, self: os.Getpid(), sessions: make(map[int]Session, len(t.Sessions)),
		held: map[int]bool{}, learned: map[int]bool{},
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

// convinced reports whether a look that found nothing is believed: surely if it
// missed nothing, and at some time anyway.
func (s *sweep) convinced() bool {
	if s.unsure {
		s.emptyLooks++
	}
	return !s.unsure || s.emptyLooks >= enoughLooks
}

func (s *sweep) close() { s.proc.close() }

func (s *sweep) find() (found []Proc, err error) {
	err = s.scan(func(p Proc) { found = append(found, p) })
	return found, err
}

// scan shows every living process of the job to visit, at the moment at which
// it is found, and misses none.
//
// A look at all of /proc can miss a process that forks and ends all the time: the
// one that was listed is gone when it is read, its child is not in the list. But
// the child has one of the pids that were given away by then, so whenever a
// process was gone when its turn came, these are looked at, too. In the end each
// was seen alive and belongs to others, as its descendants do, or is dead and so
// are its descendants.
func (s *sweep) scan(visit func(Proc)) error {
	s.shown, s.doubts = map[identity]bool{}, nil
	newest := s.proc.newest()
	pids, err := s.proc.pids()
	gone, again := s.look(pids, visit)
	for limit := time.Now().Add(chaseLimit); err == nil; {
		if s.unsure = gone || len(again) > 0; !s.unsure || time.Now().After(limit) {
			break
		}
		var whole bool
		before := newest
		newest = s.proc.newest()
		pids, whole, err = s.proc.bornBetween(before, newest)
		gone, again = s.look(append(pids, again...), visit)
		gone = gone || !whole
	}
	for _, p := range s.doubts {
		if s.held[p.SID] {
			s.show(p, visit)
		}
	}
	s.showDying(visit)
	return err
}

// showDying shows what earlier looks have shown and is not dead: who has freed
// its memory cannot be recognised any more, but may hold a port or a device until
// its last thread has ended.
func (s *sweep) showDying(visit func(Proc)) {
	for id := range s.living {
		if p, ok := s.proc.stat(id.pid); ok && p.Start == id.start {
			s.show(p, visit)
		}
	}
	s.living = s.shown
}

// look shows those of pids that belong to the job. It reports whether one was
// gone, and which ones have to be looked at again: those that are just executing
// a program and have no environment yet.
func (s *sweep) look(pids []int, visit func(Proc)) (gone bool, again []int) {
	s.count()
	for _, pid := range pids {
		if pid == s.self {
			continue
		}
		p, ok := s.proc.stat(pid)
		if !ok {
			gone = true
			continue
		}
		switch s.belongs(p) {
		case ours:
			s.show(p, visit)
		case doubtful:
			s.doubts = append(s.doubts, p)
		case vanished:
			gone = true
		case changing:
			again = append(again, pid)
		case foreign:
		}
	}
	return gone, again
}

// count reads who is in the cgroup.
func (s *sweep) count() {
	if s.Cgroup == nil {
		return
	}
	s.members = map[int]bool{}
	for _, pid := range s.Cgroup.Procs() {
		s.members[pid] = true
	}
}

// show passes a process on, once, unless it is dead or another user's, or a
// thread: /proc lists none of them but tells when asked.
func (s *sweep) show(p Proc, visit func(Proc)) {
	if s.shown[p.identity()] || p.dead() || unix.Kill(p.PID, 0) == unix.EPERM || !leads(p.PID) {
		return
	}
	s.shown[p.identity()] = true
	visit(p)
}

// leads reports whether pid is a process. Where that cannot be told it is one.
func leads(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err != unix.EINVAL && err != unix.ENOENT // before and since Linux 6.9
}

// verdict says to whom a process belongs.
type verdict int

const (
	foreign  verdict = iota
	doubtful         // ours if its session still is
	ours
	vanished // dead before the look at it was over
	changing // between two programs
)

func (s *sweep) belongs(p Proc) verdict {
	bySession := s.bySession(p)
	switch {
	case bySession == ours:
		return ours
	case p.dead():
		return vanished
	case s.members[p.PID] && s.Cgroup.Has(p.PID): // the number may be another's by now
		return ours
	case p.Start < s.Since: // a connection that ssh keeps for others, say, whoever had to adopt it
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
		s.learn(p)
		return ours
	}
	return bySession
}

// learn takes the session of a marked process for the job's, unless its leader lives and is not the job's: then
// somebody uses a copy of the marker in a session of his own, and the rest of that is none of our business.
func (s *sweep) learn(p Proc) {
	if p.SID <= 0 || p.SID == s.selfSID {
		return
	}
	if leader, ok := s.proc.stat(p.SID); ok && p.SID != p.PID && !leader.dead() {
		marker, _ := s.proc.marker(leader)
		if leader.Start < s.Since || !marker.Has(s.ID) {
			return
		}
	}
	s.learned[p.SID] = true
}

// bySession judges by the session. A session's number is not given away as long
// as one process is in it. After the rank was reaped the session may have become
// empty and its number a stranger's, so a process that is younger than that is in
// doubt until an older one, dead or alive, is seen in the same session.
func (s *sweep) bySession(p Proc) verdict {
	if s.learned[p.SID] && p.Start >= s.Since {
		return ours
	}
	session, ok := s.sessions[p.SID]
	if !ok || p.SID <= 0 || p.Start < session.Since {
		return foreign
	}
	if session.Until != 0 && p.Start > session.Until {
		return doubtful
	}
	s.held[p.SID] = true
	return ours
}

// signal reports whether it has sent sig to p.
func (s *sweep) signal(p Proc, sig unix.Signal) bool {
	err := p.Signal(sig)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err == nil
	}
	return unix.Kill(p.PID, sig) == nil // out of descriptors, say: the next best
}

func (s *sweep) signalAll(procs []Proc, sig unix.Signal) {
	for _, p := range procs {
		s.signal(p, sig)
	}
}

// stop stops p and, where the whole session is ours, its process group: p may
// have forked and ended by now, but a group gets a signal all at once, and no
// fork in it is under way meanwhile.
func (s *sweep) stop(p Proc) {
	s.signal(p, unix.SIGSTOP)
	whole := s.learned[p.SID] || s.held[p.SID]
	if whole && p.PGID > 1 && p.PGID != unix.Getpgrp() {
		_ = unix.Kill(-p.PGID, unix.SIGSTOP)
	}
}

// freeze stops the job's processes until a look finds no new one, and returns
// all that it saw; guards are those of inner jobs, which it leaves alone.
func (s *sweep) freeze(deadline time.Time) (frozen, guards []Proc) {
	seen := map[identity]bool{}
	clear(s.learned)
	limit := earlier(deadline, time.Now().Add(freezeLimit))
	for {
		fresh := false
		_ = s.scan(func(p Proc) {
			switch {
			case seen[p.identity()]:
				return
			case !s.impatient && s.isGuard(p):
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

// isGuard reports whether p is a guard, which has the same argv[0] before and
// after it became a sweep.
func (s *sweep) isGuard(p Proc) bool {
	argv, err := s.proc.read(strconv.Itoa(p.PID) + "/cmdline")
	return err == nil && bytes.HasPrefix(argv, []byte(guardName+"\x00"))
}

// await waits until all of procs are dead, or until deadline.
func (s *sweep) await(procs []Proc, deadline time.Time) {
	for _, p := range procs {
		if !s.awaitOne(p, deadline) {
			return
		}
	}
}

// awaitOne reports false when time is up. Without a pidfd it only takes a break.
func (s *sweep) awaitOne(p Proc, deadline time.Time) bool {
	fd, err := p.pin()
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

// awaitExit waits until the process of a pidfd is dead and reports whether it is;
// a zero deadline means for ever.
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
