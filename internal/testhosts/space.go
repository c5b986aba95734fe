package testhosts

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

//go:embed host.sh
var hostScript string

// switchScript is the first process of the namespace of the bridges.
const switchScript = `echo ready; exec >/dev/null 2>&1; cd /; exec cat`

// The head has no PID namespace, so that a process that is started there is the command itself.
const (
	headNamespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS
	hostNamespaces = headNamespaces | syscall.CLONE_NEWPID
)

// space is a process that keeps its namespaces alive.
type space struct {
	pid      int
	started  string    // start time in clock ticks since boot, which makes the pid unique
	network  *os.File  // held open, as the numbers of namespaces are reused
	pids     *os.File  // its PID namespace
	lifeline io.Closer // the standard input of the first process, which ends with it
	ended    chan struct{}
}

// startSpace runs a script in new namespaces and waits until it prints "ready". Its standard error goes to log.
func startSpace(flags uintptr, log, script string, args ...string) (*space, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "testhosts"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Setsid: true}
	cmd.Stderr = stderr
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout = in
	s := &space{ended: make(chan struct{})}
	if s.lifeline, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	in.Close()
	if err != nil {
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	s.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(s.ended)
	}()
	return s, s.awaitReady(out, log)
}

// awaitReady waits for the script and opens the namespaces.
func (s *space) awaitReady(out io.Reader, log string) error {
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		output, _ := os.ReadFile(log)
		return errors.Join(fmt.Errorf("the first process ended: %s", bytes.TrimSpace(output)), s.kill())
	}
	if err := s.identify(); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// identify opens the namespaces of the space with a known pid.
func (s *space) identify() (err error) {
	if s.started, err = startTime(s.pid); err != nil {
		return err
	}
	if s.network, err = os.Open(s.file("ns/net")); err != nil {
		return err
	}
	s.pids, err = os.Open(s.file("ns/pid"))
	return err
}

// file returns the path of a file in /proc of the space's first process.
func (s *space) file(name string) string { return filepath.Join("/proc", strconv.Itoa(s.pid), name) }

// alive reports whether the first process runs.
func (s *space) alive() bool {
	now, err := startTime(s.pid)
	return err == nil && now == s.started
}

// kill kills the first process, and with it its PID namespace.
func (s *space) kill() error {
	process, err := os.FindProcess(s.pid) // holds a pidfd
	if err != nil {
		return err
	}
	defer process.Release()
	if s.started != "" && !s.alive() {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", s.pid, err)
	}
	return nil
}

// close releases the namespaces.
func (s *space) close() {
	_, _, _ = s.network.Close(), s.pids.Close(), s.lifeline.Close() // Close of a nil file has no effect
}

// startTime returns field 22 of /proc/PID/stat, or an error if the process has ended.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", err
	}
	// from the third field on, as the name before may have blanks
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if state := fields[0]; state == "Z" || state == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
