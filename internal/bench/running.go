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

// running is a program that is measured while it runs.
type running struct {
	*exec.Cmd
	said  string        // the last line that start waited for
	ended chan struct{} // closed at the end of its output
}

// start starts a program and waits until it has printed so many lines: with them it says that it is ready.
func start(command *exec.Cmd, lines int) (*running, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, err
	}
	r := &running{Cmd: command, ended: make(chan struct{})}
	expired := time.AfterFunc(2*time.Minute, func() { _ = command.Process.Kill() }) // its end closes the pipe
	defer expired.Stop()
	said, come := bufio.NewScanner(output), 0
	for come < lines && said.Scan() {
		r.said = said.Text()
		come++
	}
	go func() {
		_, _ = io.Copy(io.Discard, output)
		close(r.ended)
	}()
	if come < lines {
		r.end()
		return nil, fmt.Errorf("%s: only %d of %d lines came", command.Path, come, lines)
	}
	return r, nil
}

// end asks the program to end, and makes it after a while.
func (r *running) end() {
	_ = r.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(15*time.Second, func() { _ = r.Process.Kill() })
	defer forced.Stop()
	<-r.ended
	_ = r.Wait()
}

// cpu is the CPU time of the program and all processes below it.
func (r *running) cpu() (time.Duration, error) {
	all, err := cpuTime(r.Process.Pid)
	for _, pid := range processTree(r.Process.Pid, true) {
		helper, _ := cpuTime(pid) // it may have ended
		all += helper
	}
	return all, err
}

// cpuTime reads a process's clock, whose number clock_getcpuclockid(3) makes of its id.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &now)
	return time.Duration(now.Nano()), err
}

// held is what a process holds, in KiB, from /proc/PID/status: now (VmRSS) and at most (VmHWM).
type held struct{ now, peak int }

func heldBy(pid int) (h held, err error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return h, err
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d", &h.now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d", &h.peak)
	}
	if h.now == 0 {
		return h, fmt.Errorf("process %d has ended", pid)
	}
	return h, nil
}
