package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// measured is a running program under measurement.
type measured struct {
	*exec.Cmd
	line  string        // the last one that start waited for
	ended chan struct{} // closed at the end of its output
}

// start starts a program and waits until it has printed the given number of lines.
func start(command *exec.Cmd, lines int) (*measured, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, err
	}
	r := &measured{Cmd: command, ended: make(chan struct{})}
	expired := time.AfterFunc(2*time.Minute, func() { _ = command.Process.Kill() }) // closes the pipe
	defer expired.Stop()
	scanner, printed := bufio.NewScanner(output), 0
	for ; printed < lines && scanner.Scan(); printed++ {
		r.line = scanner.Text()
	}
	go func() {
		_, _ = io.Copy(io.Discard, output)
		close(r.ended)
	}()
	if printed < lines {
		r.stop()
		return nil, fmt.Errorf("%s: only %d of %d lines came", command.Path, printed, lines)
	}
	return r, nil
}

// stop sends SIGTERM to the program, and SIGKILL after a while.
func (r *measured) stop() {
	_ = r.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(15*time.Second, func() { _ = r.Process.Kill() })
	defer forced.Stop()
	<-r.ended
	_ = r.Wait()
}

// cpu returns the CPU time of the program and its descendants.
func (r *measured) cpu() (time.Duration, error) {
	total, err := cpuTime(r.Process.Pid)
	for _, pid := range descendants(r.Process.Pid) {
		helper, _ := cpuTime(pid) // 0 if it has ended
		total += helper
	}
	return total, err
}

// cpuTime reads a process's CPU clock, see clock_getcpuclockid(3).
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &now)
	return time.Duration(now.Nano()), err
}

// residentSize is the memory of a process in KiB, from /proc/PID/status: now (VmRSS), at most (VmHWM), and what of it
// is the process's own (RssAnon). The rest is files, mostly the program, which are in memory once for all processes.
type residentSize struct{ now, peak, own int }

func residentSizeOf(pid int) (size residentSize, err error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return size, err
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d", &size.now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d", &size.peak)
		_, _ = fmt.Sscanf(lines.Text(), "RssAnon: %d", &size.own)
	}
	if size.now == 0 {
		return size, fmt.Errorf("process %d has ended", pid)
	}
	return size, nil
}
