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

// GuardConfig configures a [Guard].
type GuardConfig struct {
	// ID is the job's element of the marker.
	ID string
	// Executable is a program that calls [EnterGuard] first of all, for a host program that does not. "" is this
	// program, even if its file was replaced or deleted.
	Executable string
	// Link is the connection through which this process is controlled; nil: none. If its other end is closed and this
	// process does not react because it is stopped, the guard kills it, and with it the job.
	Link syscall.Conn
}

// guardName is the guard's name in ps. It does not contain "gorun", so that `pkill gorun` does not kill the guard
// together with the launcher.
const guardName = "job-guard"

// Guard is a process that ends a job if the launcher dies for any reason, SIGKILL included. It sleeps until the last
// write end of a pipe is closed, and becomes a Go program only then:
//
//	launcher                         guard
//	   | -- clone, execve --------->   new session, all signals blocked; descriptors:
//	   |                               0 the pipe, 1 the program to execute, 3 the link
//	   | == records in the pipe ==     not read yet (guard_records.go)
//	   x dies, the pipe closes
//	                                   poll returns, execve of the launcher's program
//	                                   EnterGuard: reads the records, kills the job,
//	                                   removes paths, exits
//
// It is the Go program from the start if processes are limited (see Prepare) or a memfd cannot be executed (sysctl
// vm.memfd_noexec). It also becomes the program when the link is closed, to make sure that the launcher ends
// (guard_link.go).
//
// What is added before Start, or while the guard process is dead, is kept for the next one. All methods are safe for
// concurrent use. The zero value is ready to use.
type Guard struct {
	mu        sync.Mutex // held only briefly while ranks start: spawner threads add them
	config    GuardConfig
	job       Guarded
	process   *guardProcess // nil: none
	prepared  bool          // start the Go program directly
	dismissed bool
}

// guardProcess is a running guard.
type guardProcess struct {
	pid      int // 0: being started
	pidfd    int
	pipe     int   // write end
	writeErr error // sticky: the pipe may end in half a record
	reaped   int   // ranks in the pipe that were reaped since
	watch    *deathWatch
}

var errGuardDied = errors.New("the guard process is dead")

// Start starts the guard process. If the system is out of processes or memory the error wraps EAGAIN or ENOMEM.
func (g *Guard) Start(config GuardConfig) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config, g.job.ID = config, config.ID
	return g.start(true)
}

// start replaces the guard process by a new one, whose pipe has the current state. After an error nothing has changed.
// With unlock, others may add to the new pipe while the process is started.
func (g *Guard) start(unlock bool) error {
	self, err := readSelf()
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("start guard: %w", os.NewSyscallError("pipe2", err))
	}
	read, write, err := aboveStandardBoth(ends)
	if err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	defer unix.Close(int(read))
	setNonblock(write) // if the pipe is full, write enlarges it
	before, next := g.process, &guardProcess{pipe: int(write)}
	g.job.Since = self.start
	if err = next.write(g.job.encode()); err == nil {
		g.process = next
		if unlock {
			g.mu.Unlock()
		}
		pid, pidfd, failed := g.spawn(self, int(read))
		if unlock {
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

// add changes the state and passes the record to the process.
func (g *Guard) add(change func(*Guarded) (record []byte)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if record := change(&g.job); g.process != nil {
		_ = g.process.write(record) // a dead process is replaced by one that gets the whole state
	}
}

// AddRank records the session of a rank by the rank's pid.
func (g *Guard) AddRank(pid int) {
	g.add(func(job *Guarded) []byte {
		job.Ranks = append(job.Ranks, pid)
		return appendWord(make([]byte, 0, 8), recordRank, uint64(pid))
	})
}

// maxReaped bounds the reaped ranks in a pipe: with their two records each they take half a page, the smallest pipe.
const maxReaped = 128

// RemoveRanks records that ranks are about to be reaped: the ids of their empty sessions may be reused. From time to
// time it replaces the guard process by one without them.
func (g *Guard) RemoveRanks(pids []int) {
	g.add(func(job *Guarded) (records []byte) {
		job.removeRanks(pids)
		if p := g.process; p != nil && p.pid != 0 {
			if p.reaped += len(pids); p.reaped > maxReaped && g.renew() == nil {
				return nil
			}
		}
		for _, pid := range pids {
			records = appendWord(records, recordReaped, uint64(pid))
		}
		return records
	})
}

// AddCgroup records the directory of the job's cgroup. The guard process kills what is in it and removes it.
func (g *Guard) AddCgroup(dir string) {
	g.add(func(job *Guarded) []byte {
		job.Cgroup = dir
		return appendData(nil, recordCgroup, dir)
	})
}

// AddPath records the file at a path, or a directory about to be made there, for removal by the guard process if the
// launcher dies. Dismiss leaves it alone.
func (g *Guard) AddPath(path string) {
	if o, err := Identify(path); err == nil {
		g.add(func(job *Guarded) []byte {
			job.onDeath = append(job.onDeath, o)
			return o.appendTo(nil)
		})
	}
}

// AddOwned records a file or directory for removal ([Owned.Remove]) when the launcher dies or the guard is dismissed.
// Record a directory before it is made, and again when it can be identified.
func (g *Guard) AddOwned(o Owned) {
	g.add(func(job *Guarded) []byte {
		if g.dismissed {
			o.Remove()
		}
		job.Owned = append(job.Owned, o)
		return o.appendTo(nil)
	})
}

// AddNumbered records files that ranks create, for removal with [RemoveNumbered] at the same times.
func (g *Guard) AddNumbered(prefix string) {
	g.add(func(job *Guarded) []byte {
		if g.dismissed {
			RemoveNumbered(prefix)
		}
		if slices.Contains(job.Numbered, prefix) {
			return nil
		}
		job.Numbered = append(job.Numbered, prefix)
		return appendData(nil, recordNumbered, prefix)
	})
}

// Guarded returns the current state.
func (g *Guard) Guarded() Guarded {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.job
}

// Died returns a channel that is closed when the guard process dies without having been dismissed. Call [Guard.Replace]
// then, and Died again.
func (g *Guard) Died() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.process
	if p != nil && p.watch == nil {
		p.watch = watchDeath(p.pid, make(chan struct{}))
	}
	if p == nil || p.watch == nil {
		return nil
	}
	return p.watch.died
}

// Replace starts another guard process in place of a dead one.
func (g *Guard) Replace() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dismissed {
		return nil
	}
	g.process.end()
	g.process = nil
	return g.start(false)
}

// Prepare replaces the guard process by one that is the Go program already, with all its threads. A guard that executes
// the program when the launcher is dead needs new threads, and the Go runtime aborts if the job has used up a limit of
// processes. It costs some milliseconds and megabytes, so use it where processes are limited. A signal may kill the new
// process in its first milliseconds; it must then be replaced.
func (g *Guard) Prepare() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prepared = true
	return g.renew()
}

// renew replaces a living guard process. There is one at every moment; after an error it is the old one.
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

// Dismiss ends the guard process and removes what is owned or numbered, but does not touch the job's processes. What is
// added later is removed at once. Only the first call has an effect.
func (g *Guard) Dismiss() {
	g.mu.Lock()
	p, job, done := g.process, g.job, g.dismissed
	g.process, g.dismissed = nil, true
	g.mu.Unlock()
	p.end()
	if !done {
		job.remove()
	}
}

// PID returns the pid of the guard process, 0 if none exists. [Guard.Replace] and other methods change it.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.pid
}

// end kills the guard process and waits for it before it closes the pipe, which would trigger the sweep. p may be nil.
func (p *guardProcess) end() {
	if p == nil {
		return
	}
	p.watch.stop()
	_ = signalPidfd(p.pidfd, p.pid, unix.SIGKILL)
	for unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	_ = unix.Close(p.pidfd)
	_ = unix.Close(p.pipe)
}

// write writes records, and enlarges the pipe if they do not fit.
func (p *guardProcess) write(records []byte) error {
	for len(records) > 0 && p.writeErr == nil {
		n, err := unix.Write(p.pipe, records)
		switch {
		case err == nil:
			records = records[n:]
		case err == unix.EAGAIN:
			p.writeErr = enlargePipe(p.pipe)
		case err == unix.EPIPE || err == unix.EBADF:
			p.writeErr = errGuardDied
		case err != unix.EINTR:
			p.writeErr = os.NewSyscallError("write", err)
		}
	}
	return p.writeErr
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
