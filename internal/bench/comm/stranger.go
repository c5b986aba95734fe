package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// stranger is a process that has nothing to do with what is measured, and keeps one CPU busy while a batch runs. Between batches it is stopped, so that
// the probe sees the machine and not the stranger.
type stranger struct{ command *exec.Cmd }

// newStranger starts one on the last CPU; it ends when this process does.
func newStranger(self string) (*stranger, error) {
	cpus, err := ownCPUs()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, "-busy", strconv.Itoa(cpus[len(cpus)-1]))
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("the stranger: %w", err)
	}
	s := &stranger{command}
	s.signal(syscall.SIGSTOP)
	return s, nil
}

// beBusy is the stranger's own work.
func beBusy(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	for turns := new(atomic.Uint64); ; {
		turns.Add(1)
	}
}

func (s *stranger) signal(signal syscall.Signal) {
	if s != nil {
		_ = s.command.Process.Signal(signal)
	}
}

func (s *stranger) close() {
	if s != nil {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	}
}

// run does a task with the stranger, if there is one, beside it.
func (c contender) run(t task) (answer, error) {
	c.beside.signal(syscall.SIGCONT)
	defer c.beside.signal(syscall.SIGSTOP)
	return c.session.run(t)
}
