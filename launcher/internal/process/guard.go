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

// GuardConfig says for which job a guard is, and how it is started.
type GuardConfig struct {
	// ID is the job's element of the marker.
	ID string
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

// Guard is the process that ends a job when the launcher dies in whatever way,
// SIGKILL included. It sleeps until the last write end of a pipe is closed, and
// turns into a Go program only then:
//
//	launcher                         guard
//	   | -- clone, execve --------->   own session, deaf to signals; descriptors:
//	   |                               0 the pipe, 1 the program to become, 3 the link
//	   | == records in the pipe ==     not read yet (guard_records.go)
//	   x dies, the pipe closes
//	                                   poll returns, execve of the launcher's program
//	                                   EnterGuard: reads the records, SIGKILL to all
//	                                   of the job, removes paths, ends
//
// Where processes are limited it is that program from the beginning, see Prepare; so it is where
// files in memory cannot be executed (sysctl vm.memfd_noexec). When the link is closed it becomes
// the program, too, to see that the launcher ends (guard_stopped.go).
//
// What is added before Start, or to a guard process that died, is kept for the next one. All
// methods may be called by several goroutines, but the others after Start have to wait for its end,
// except those that add. The zero value guards nothing yet.
type Guard struct {
	mu      sync.Mutex // held briefly while ranks are started: their threads come by
	config  GuardConfig
	job     Guarded
	process *guardProcess // nil: there is none
	ready   bool          // it has to be the Go program from the beginning
	over    bool          // it was dismissed
}

// guardProcess is a guard as the launcher has it.
type guardProcess struct {
	pid   int // 0: it is being started
	pidfd int
	pipe  int   // write end
	mute  error // why the pipe takes no more
	// outdated is how many ranks the pipe has that were reaped since.
	outdated int
	watch    *deathWatch
}

var errGuardDied = errors.New("the guard process is dead")

// Start starts the guard process. The error says which step failed; a system that is out of
// processes or memory is an unwrapped EAGAIN or ENOMEM.
func (g *Guard) Start(config GuardConfig) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config, g.job.ID = config, config.ID
	return g.start(true)
}

// start puts a new process, which finds the present state in its pipe, in the place of what there
// is. After an error all is as before. Aside says that others may add meanwhile, to the pipe.
func (g *Guard) start(aside bool) error {
	self, err := readSelf()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	ends, err := pipe()
	if err != nil {
		return fmt.Errorf("start guard: %w", os.NewSyscallError("pipe2", err))
	}
	read := int(ends[0])
	defer unix.Close(read)
	setNonblock(ends[1]) // a full pipe is to be enlarged
	before, next := g.process, &guardProcess{pipe: int(ends[1])}
	g.job.Since = self.start
	if err = next.tell(g.job.encode()); err == nil {
		g.process = next
		if aside {
			g.mu.Unlock()
		}
		pid, pidfd, failed := g.spawn(self, read)
		if aside {
			g.mu.Lock()
		}
		next.pid, next.pidfd, err = pid, pidfd, failed
	}
	if err != nil {
		_ = unix.Close(next.pipe)
		g.process = before
		return fmt.Errorf("start guard: %w", err)
	}
	return nil
}

// add changes what is guarded, and tells the process.
func (g *Guard) add(change func(*Guarded) (record []byte)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if record := change(&g.job); g.process != nil {
		_ = g.process.tell(record) // one that died is replaced, and told everything again
	}
}

// AddRank records the session of a rank, whose id is the rank's pid.
func (g *Guard) AddRank(pid int) {
	g.add(func(job *Guarded) []byte {
		job.Ranks = append(job.Ranks, pid)
		return appendWord(make([]byte, 0, 8), recordRank, uint64(pid))
	})
}

// renewAfter is how many ranks that were reaped lie in the pipe at most: half of what the
// smallest one holds, which is a page, is theirs and as many words that took them back.
const renewAfter = 128

// RemoveRanks records that ranks are about to be reaped: the numbers of their sessions, of
// which nobody is left, may be strangers' then. Every so often another guard takes the place
// of this one, which knows nothing of them.
func (g *Guard) RemoveRanks(pids []int) {
	g.add(func(job *Guarded) (records []byte) {
		job.removeRanks(pids)
		if p := g.process; p != nil && p.pid != 0 {
			if p.outdated += len(pids); p.outdated > renewAfter && g.renew() == nil {
				return nil
			}
		}
		for _, pid := range pids {
			records = appendWord(records, recordReaped, uint64(pid))
		}
		return records
	})
}

// AddCgroup records the directory of the job's own cgroup. The guard ends what is in it and
// removes it.
func (g *Guard) AddCgroup(dir string) {
	g.add(func(job *Guarded) []byte {
		job.Cgroup = dir
		return appendData(nil, recordCgroup, dir)
	})
}

// AddPath records what a path names now, or a directory that is going to be made there, which is
// not ours to remove: the guard process does so when the launcher dies.
func (g *Guard) AddPath(path string) {
	if o, err := Identify(path); err == nil {
		g.add(func(job *Guarded) []byte {
			job.lent = append(job.lent, o)
			return o.appendTo(nil)
		})
	}
}

// AddOwned records a file or directory that is to be removed with all below when the launcher dies, or the guard is
// dismissed, as [Owned.Remove] does. A directory is recorded before it is made, and again when it is known which one
// it is.
func (g *Guard) AddOwned(o Owned) {
	g.add(func(job *Guarded) []byte {
		if g.over {
			o.Remove()
		}
		job.Owned = append(job.Owned, o)
		return o.appendTo(nil)
	})
}

// AddNumbered records files that ranks make for themselves, to be removed at the same times, as [RemoveNumbered] does.
func (g *Guard) AddNumbered(prefix string) {
	g.add(func(job *Guarded) []byte {
		if g.over {
			RemoveNumbered(prefix)
		}
		if slices.Contains(job.Numbered, prefix) {
			return nil
		}
		job.Numbered = append(job.Numbered, prefix)
		return appendData(nil, recordNumbered, prefix)
	})
}

// Guarded is what would be ended and removed now.
func (g *Guard) Guarded() Guarded {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.job
}

// Died returns a channel that is closed when the guard dies without having been
// dismissed; [Guard.Replace] is due then, and Died to be asked again.
func (g *Guard) Died() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.process
	if p != nil && p.watch == nil {
		p.watch = watchDeath(p.pid)
	}
	if p == nil || p.watch == nil {
		return nil
	}
	return p.watch.died
}

// Replace starts another guard in place of one that died and tells it everything again.
func (g *Guard) Replace() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return nil
	}
	g.process.end()
	g.process = nil
	return g.start(false)
}

// Prepare has a guard take over that is the Go program already. One that becomes
// it when the launcher is dead needs threads then: if the job's own processes
// have used up a limit of processes, the Go runtime gets none, and ends. It costs
// some milliseconds and megabytes, so it is for where processes are limited. In its first
// milliseconds a signal may end the new one, which is then to be replaced.
func (g *Guard) Prepare() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready = true
	return g.renew()
}

// renew puts a new guard in place of a living one. There is a guard at every moment, and after an error it is the one
// before.
func (g *Guard) renew() error {
	before := g.process
	if before == nil {
		return nil
	}
	if err := g.start(false); err != nil {
		return err
	}
	g.process.watch = before.watch.handOver(g.process.pid)
	before.watch = nil
	before.end()
	return nil
}

// Dismiss ends the guard, and the job lives on: of it nothing is removed but what is owned or numbered. What is added
// afterwards is removed at once. Nothing of the guard is left when it returns. The second call does nothing.
func (g *Guard) Dismiss() {
	g.mu.Lock()
	p, job, over := g.process, g.job, g.over
	g.process, g.over = nil, true
	g.mu.Unlock()
	p.end()
	if !over {
		job.remove()
	}
}

// PID returns the guard's process id, 0 after its dismissal. It changes with
// [Guard.Replace].
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.pid
}

// end kills the guard and waits for it; only then the pipe is closed, which
// would set it off. It may be nil.
func (p *guardProcess) end() {
	if p == nil {
		return
	}
	p.watch.stop()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	for unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	_ = unix.Close(p.pidfd)
	_ = unix.Close(p.pipe)
}

// tell writes records, and enlarges the pipe when they do not fit. After an
// error the pipe may end in half a record, so it takes no more.
func (p *guardProcess) tell(records []byte) error {
	for len(records) > 0 && p.mute == nil {
		n, err := unix.Write(p.pipe, records)
		switch {
		case err == nil:
			records = records[n:]
		case err == unix.EAGAIN:
			p.mute = enlargePipe(p.pipe)
		case err == unix.EPIPE || err == unix.EBADF:
			p.mute = errGuardDied
		case err != unix.EINTR:
			p.mute = os.NewSyscallError("write", err)
		}
	}
	return p.mute
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
