package process

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guardThreads is how many threads a guard makes that waits as a Go program. It
// runs Go code on one at a time, and a few wait in the kernel.
const guardThreads = 5

// Prepare has a guard take over that is the Go program already. One that becomes
// it when the launcher is dead needs threads then: if the job's own processes
// have used up a limit of processes, the Go runtime gets none, and ends. It costs
// some milliseconds and megabytes, so it is for where processes are limited. There is a
// guard at every moment, and after an error it is the one before. In its first
// milliseconds a signal may end the new one, which is then to be replaced.
func (g *Guard) Prepare() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pidfd < 0 {
		return nil // dismissed
	}
	ways := g.ways
	g.ways = []guardWay{spawnReady}
	err := g.renew()
	if err != nil {
		g.ways = ways
		return err
	}
	g.ways = append(g.ways, ways...) // for when it is killed
	return nil
}

// renew puts a new guard, which finds the present state in its pipe, in place of this one.
// There is a guard at every moment, and after an error it is the one before.
func (g *Guard) renew() error {
	if g.pidfd < 0 {
		return nil // dismissed
	}
	before := &Guard{pid: g.pid, pidfd: g.pidfd, pipe: g.pipe, mute: g.mute, outdated: g.outdated, watch: g.watch}
	g.watch = nil
	if err := g.start(); err != nil {
		g.pid, g.pidfd, g.pipe, g.mute, g.outdated, g.watch = before.pid, before.pidfd, before.pipe, before.mute,
			before.outdated, before.watch
		return err
	}
	g.watch = before.watch.handOver(g.pid)
	before.end()
	return nil
}

// spawnReady starts the program that a guard becomes at once. It reads the pipe
// until the launcher is gone.
func spawnReady(self guardSelf, read, exe, link int) (pid, pidfd int, err error) {
	var environ []string
	if m := markerIn(self.words[1]); m != "" { // by which an outer job's sweep finds this guard
		environ = []string{MarkerVar + "=" + string(m)}
	}
	pid, err = syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", exe), []string{guardName, guardVerb}, &syscall.ProcAttr{
		Dir: "/", Env: environ, Files: []uintptr{uintptr(read), noFile, noFile, uintptr(link)},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return 0, -1, os.NewSyscallError("execve", err)
	}
	return pid, pidfd, nil
}

// getReady is what such a guard does before it waits.
func getReady() {
	ignoreSignals()
	closeInherited()
	makeThreads(guardThreads)
}

// meant are the signals that somebody may send to end or stop a program. Blocked
// by who starts it they would not stay: the Go runtime unblocks them.
var meant = [...]unix.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGVTALRM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR,
}

// ignoreSignals is for a guard, which is no host program's: see os/signal.Ignore.
func ignoreSignals() {
	ignore := [4]uint64{1} // a struct sigaction with SIG_IGN
	for _, s := range meant {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	}
}

// awaitsLauncher reports whether the pipe that is standard input has a writer.
func awaitsLauncher() bool {
	pipe := []unix.PollFd{{Fd: 0}}
	_, err := unix.Poll(pipe, 0)
	return err == nil && pipe[0].Revents&unix.POLLHUP == 0
}

// closeInherited closes what the launcher was given and has not opened itself.
// Whatever Go opens is to be closed by execve, which is over for what we inherited.
func closeInherited() {
	open, _ := openDescriptors()
	for _, fd := range open {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd >= numStreams && fd != linkDescriptor && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
