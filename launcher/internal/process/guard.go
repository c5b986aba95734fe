package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// GuardConfig says what a guard has to end.
type GuardConfig struct {
	// ID is the job's element of the marker.
	ID string
	// Cgroup is the directory of the job's own cgroup, "" if it has none. The guard
	// ends what is in it and removes it.
	Cgroup string
	// Remove lists files and directories to remove, as AddOwned takes them.
	Remove []Owned
	// Numbered are what names of files to remove begin with, as AddNumbered takes them.
	Numbered []string
	// Executable is a program that calls [EnterGuard] first of all, for a host
	// program that does not. "" is this program itself, even if its file is
	// replaced or deleted meanwhile.
	Executable string
	// Link is the connection by which this process is told what to do, nil if there is
	// none. Where its other end is closed and this process does not act on that, as it
	// is stopped, the guard ends it, and with it the job.
	Link syscall.Conn
}

// guardName is what ps shows of a guard. It names neither this project nor the
// job: `pkill gorun` ends the launcher, and the guard is what is left to see that
// the job ends as well.
const guardName = "job-guard"

// ErrGuardDied says that the guard is gone and can be told nothing any more;
// what it should have been told is kept for [Guard.Replace].
var ErrGuardDied = errors.New("the guard process is dead")

// Guard is the process that ends a job when the launcher dies in whatever way,
// SIGKILL included. It sleeps until the last write end of a pipe is closed, and
// turns into a Go program only then:
//
//	launcher                         guard
//	   | -- spawnImage ------------>   own session, deaf to signals; descriptors:
//	   |    (or forkGuard)             0 the pipe, 1 the program to become, 3 the link
//	   | == records in the pipe ==     not read yet (guard_records.go)
//	   x dies, the pipe closes
//	                                   poll returns, execve of the launcher's program
//	                                   EnterGuard: reads the records, SIGKILL to all
//	                                   of the job, removes paths, ends
//
// Where processes are limited it turns into that program sooner, see Prepare; when the
// link is closed, too, to see that the launcher ends (guard_link.go).
//
// All methods may be called by several goroutines.
type Guard struct {
	executable string
	link       syscall.Conn
	ways       []guardWay

	mu    sync.Mutex
	state guardState
	pid   int
	pidfd int   // -1: dismissed
	pipe  int   // write end
	mute  error // why the pipe takes no more
	// outdated is how many ranks the pipe has that were reaped since.
	outdated int
	watch    *deathWatch
}

// guardWay makes a guard process of the read end of the pipe, the program that it
// becomes and the link.
type guardWay func(self guardSelf, read, exe, link int) (pid, pidfd int, err error)

// guardWays are tried in turn: files in memory cannot be executed everywhere
// (sysctl vm.memfd_noexec).
var guardWays = []guardWay{spawnImage, forkGuard}

// StartGuard starts a guard and tells it what cfg says. The error says which step
// failed; a system that is out of processes or memory is an unwrapped EAGAIN or
// ENOMEM.
func StartGuard(cfg GuardConfig) (*Guard, error) {
	return startGuard(cfg, guardWays)
}

func startGuard(cfg GuardConfig, ways []guardWay) (*Guard, error) {
	g := &Guard{executable: cfg.Executable, link: cfg.Link, ways: ways, pidfd: -1, state: guardState{
		id: cfg.ID, cgroup: cfg.Cgroup, owned: slices.Clone(cfg.Remove), numbered: slices.Clone(cfg.Numbered),
	}}
	if err := g.start(); err != nil {
		return nil, err
	}
	return g, nil
}

// AddRank records the session of a rank, whose id is the rank's pid.
func (g *Guard) AddRank(pid int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.ranks = append(g.state.ranks, pid)
	if err := g.tell(appendWord(make([]byte, 0, 8), recordRank, uint64(pid))); err != nil {
		return fmt.Errorf("tell guard of rank with pid %d: %w", pid, err)
	}
	return nil
}

// renewAfter is how many ranks that were reaped lie in the pipe at most: half of what the
// smallest one holds, which is a page, is theirs and as many words that took them back.
const renewAfter = 128

// RemoveRanks records that ranks are about to be reaped: the numbers of their sessions, of
// which nobody is left, may be strangers' then. Every so often another guard takes the place
// of this one, which knows nothing of them.
func (g *Guard) RemoveRanks(pids []int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.removeRanks(pids)
	if g.outdated += len(pids); g.outdated > renewAfter && g.renew() == nil {
		return nil
	}
	var records []byte
	for _, pid := range pids {
		records = appendWord(records, recordReaped, uint64(pid))
	}
	if err := g.tell(records); err != nil {
		return fmt.Errorf("tell guard of %d ranks that are reaped: %w", len(pids), err)
	}
	return nil
}

// AddCgroup records the job's own cgroup, as GuardConfig.Cgroup does.
func (g *Guard) AddCgroup(dir string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.cgroup = dir
	if err := g.tell(appendData(nil, recordCgroup, dir)); err != nil {
		return fmt.Errorf("tell guard of cgroup %s: %w", dir, err)
	}
	return nil
}

// AddPath is AddOwned of what a path names now, or of a directory that is going to be made there.
func (g *Guard) AddPath(path string) error {
	owned, err := Identify(path)
	if err != nil {
		return fmt.Errorf("tell guard of a path: %w", err)
	}
	return g.AddOwned(owned)
}

// AddOwned records a file or directory that is to be removed with all below when the launcher dies, as [Owned.Remove]
// does. A directory is recorded before it is made, and again when it is known which one it is.
func (g *Guard) AddOwned(o Owned) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.owned = append(g.state.owned, o)
	if err := g.tell(o.appendTo(nil)); err != nil {
		return fmt.Errorf("tell guard of %s: %w", o.Path, err)
	}
	return nil
}

// AddNumbered records files that ranks make for themselves, to be removed when the
// launcher dies, as [RemoveNumbered] does.
func (g *Guard) AddNumbered(prefix string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.numbered = append(g.state.numbered, prefix)
	if err := g.tell(appendData(nil, recordNumbered, prefix)); err != nil {
		return fmt.Errorf("tell guard of %s: %w", prefix, err)
	}
	return nil
}

// Died returns a channel that is closed when the guard dies without having been
// dismissed; [Guard.Replace] is due then, and Died to be asked again.
func (g *Guard) Died() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watch == nil && g.pidfd >= 0 {
		g.watch = watchDeath(g.pid)
	}
	if g.watch == nil {
		return nil
	}
	return g.watch.died
}

// Replace starts another guard in place of one that died (or that reported an
// error, which it may not have survived) and tells it everything again.
func (g *Guard) Replace() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	return g.start()
}

// Dismiss ends the guard, and the job lives on. Nothing of the guard is left
// when it returns. The second call does nothing.
func (g *Guard) Dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

// end kills the guard and waits for it; only then the pipe is closed, which
// would set it off.
func (g *Guard) end() {
	if g.pidfd < 0 {
		return
	}
	g.watch.stop()
	g.watch = nil
	_ = unix.PidfdSendSignal(g.pidfd, unix.SIGKILL, nil, 0)
	for unix.Waitid(unix.P_PIDFD, g.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	_ = unix.Close(g.pidfd)
	_ = unix.Close(g.pipe)
	g.pid, g.pidfd, g.pipe = 0, -1, -1
}

// start forks a guard that finds the present state in its pipe.
func (g *Guard) start() error {
	self, err := readSelf()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	g.state.since = self.start
	read, write, err := guardPipe()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	defer unix.Close(read)
	g.pipe, g.mute, g.outdated = write, nil, 0
	if err = g.tell(g.state.encode()); err == nil {
		g.pid, g.pidfd, err = g.spawn(self, read)
	}
	if err != nil {
		_ = unix.Close(write)
		return fmt.Errorf("start guard: %w", err)
	}
	return nil
}

// spawn starts the process.
func (g *Guard) spawn(self guardSelf, read int) (pid, pidfd int, err error) {
	program := g.executable
	if program == "" {
		program = "/proc/self/exe"
	}
	exe, err := openProgram(program)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(exe)
	link, err := copyLink(g.link, read)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(link)
	for _, way := range g.ways {
		if pid, pidfd, err = way(self, read, exe, link); err == nil {
			break
		}
	}
	if err == nil && pidfd < 0 { // before Linux 5.2 the flag was unknown and not looked at
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		err = os.NewSyscallError("clone with a pidfd, which takes Linux 5.4", unix.ENOSYS)
	}
	return pid, pidfd, err
}

// forkGuard runs a forkPlan that ends in the program exe.
func forkGuard(self guardSelf, read, exe, link int) (pid, pidfd int, err error) {
	pid, pidfd, errno := newForkPlan(self, read, exe, link).fork()
	if errno != 0 {
		return 0, -1, os.NewSyscallError("clone", errno)
	}
	return pid, pidfd, nil
}

// tell writes records, and enlarges the pipe when they do not fit. After an
// error the pipe may end in half a record, so it takes no more.
func (g *Guard) tell(records []byte) error {
	for len(records) > 0 && g.mute == nil {
		n, err := unix.Write(g.pipe, records)
		switch {
		case err == nil:
			records = records[n:]
		case err == unix.EAGAIN:
			g.mute = enlargePipe(g.pipe)
		case err == unix.EPIPE || err == unix.EBADF:
			g.mute = ErrGuardDied
		case err != unix.EINTR:
			g.mute = os.NewSyscallError("write", err)
		}
	}
	return g.mute
}

func enlargePipe(pipe int) error {
	size, err := unix.FcntlInt(uintptr(pipe), unix.F_GETPIPE_SZ, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, 2*size)
	}
	if err != nil {
		return fmt.Errorf("pipe of %d bytes is full and does not grow (fs.pipe-max-size, fs.pipe-user-pages-soft): %w",
			size, err)
	}
	return nil
}

// guardPipe makes a pipe whose write end does not block the launcher when it is
// full.
func guardPipe() (read, write int, err error) {
	p, err := pipe()
	if err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	setNonblock(p[1])
	return int(p[0]), int(p[1]), nil
}

// openProgram opens a file for execveat(2).
func openProgram(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	moved, err := aboveStandard(int32(fd))
	return int(moved), err
}

// PID returns the guard's process id, 0 after its dismissal. It changes with
// [Guard.Replace].
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid
}
