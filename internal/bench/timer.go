package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sample is one run of one command.
type Sample struct {
	Wall   time.Duration
	Status syscall.WaitStatus
	Cut    bool // killed because it passed its limit
}

// Quiet prepares this process for timing: one thread that starts and waits, and no garbage collection in between.
func Quiet() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
}

// Time runs argv, whose first word is a path, with nothing on standard input and its output thrown away, and kills it after limit.
// It uses ForkExec (a vfork) and a pidfd: os/exec adds half a millisecond of goroutines and pollers to everybody, which would
// flatter the slower side of each ratio.
func Time(argv, environ []string, limit time.Duration) (Sample, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return Sample{}, err
	}
	defer null.Close()

	pidfd := -1
	attributes := &syscall.ProcAttr{
		Env:   environ,
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}
	begin := time.Now()
	pid, err := syscall.ForkExec(argv[0], argv, attributes)
	if err != nil {
		return Sample{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	defer unix.Close(pidfd)
	sample := Sample{Cut: !endsWithin(pidfd, limit)}
	if sample.Cut {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its own session: the group takes its helpers along
	}
	for {
		_, err = syscall.Wait4(pid, &sample.Status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	sample.Wall = time.Since(begin)
	return sample, err
}

// endsWithin waits for the process behind pidfd, at most limit.
func endsWithin(pidfd int, limit time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(poll, int(max(time.Until(deadline), 0).Milliseconds()))
		if n > 0 || err == nil {
			return n > 0
		}
		if !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
