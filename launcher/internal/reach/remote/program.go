package remote

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/child"
)

// Program is a local command whose standard streams are a connection: ssh, kubectl exec, a proxy command. It is a
// [Process].
type Program struct {
	In, Out *os.File      // its standard input and output
	Ended   chan struct{} // closed after it was waited for
	Err     error         // the result of that

	cmd    *child.Cmd
	stderr Tail
	once   sync.Once
}

// Start starts a program in a session of its own: a Ctrl-C on the terminal must not end it, as gorun needs the
// connection to stop the job gracefully. stderrDelay limits how long another process may hold its standard error after
// its end.
func Start(argv, environ []string, stderrDelay time.Duration) (*Program, error) {
	p := &Program{cmd: child.Command(argv[0], argv[1:]...)}
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = environ, &p.stderr, stderrDelay
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return p, p.start(p.cmd.Start)
}

// StartMerged is Start with standard error in the output. The program gets SIGTERM if this process is killed.
func StartMerged(argv, environ []string) (*Program, error) {
	p := &Program{cmd: child.Command(argv[0], argv[1:]...)}
	p.cmd.Env = environ
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	return p, p.start(func() error {
		// PR_SET_PDEATHSIG sends the signal when the starting thread ends, see prctl(2).
		runtime.LockOSThread()
		return p.cmd.Start()
	})
}

// start makes the pipes, and starts and waits for the program on one goroutine.
func (p *Program) start(start func() error) error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirIn.Close(), in.Close())
	}
	p.In, p.Out, p.Ended = in, out, make(chan struct{})
	p.cmd.Stdin, p.cmd.Stdout = theirIn, theirOut
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = theirOut
	}
	started := make(chan error)
	go func() {
		err := start()
		started <- err
		if err == nil {
			p.Err = p.cmd.Wait()
			close(p.Ended)
		}
	}()
	if err = errors.Join(<-started, theirIn.Close(), theirOut.Close()); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// Signal sends a signal to the program's process group, unless the program has ended.
func (p *Program) Signal(signal syscall.Signal) {
	select {
	case <-p.Ended:
	default: // the id of the group cannot be reused while a member lives
		_ = syscall.Kill(-p.cmd.Process.Pid, signal)
	}
}

// Read reads the program's standard output.
func (p *Program) Read(b []byte) (int, error) {
	n, err := p.Out.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Write writes to its standard input.
func (p *Program) Write(b []byte) (int, error) { return p.In.Write(b) }

// CloseWrite closes its standard input.
func (p *Program) CloseWrite() error { return p.In.Close() }

// CloseStreams closes both, at which a program should end.
func (p *Program) CloseStreams() {
	_ = p.In.Close()
	_ = p.Out.Close()
}

// Stderr returns the end of what was written to standard error.
func (p *Program) Stderr() string { return p.stderr.String() }

// Wait waits for the program's end. A program that cannot reach the host ends with a code of its own (ssh: 255) and
// writes the reason to standard error.
func (p *Program) Wait() error {
	<-p.Ended
	p.CloseStreams()
	exit, isExit := errors.AsType[*exec.ExitError](p.Err)
	switch {
	case p.Err == nil || errors.Is(p.Err, exec.ErrWaitDelay):
		return nil
	case !isExit:
		return p.Err
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		name := strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
		return &ExitError{Code: 128 + int(status.Signal()), Signal: name}
	}
	return &ExitError{Code: exit.ExitCode()}
}

// Close kills the program and its process group.
func (p *Program) Close() error {
	p.once.Do(func() {
		p.Signal(syscall.SIGKILL) // before its input is closed, which could end it with success
		p.CloseStreams()
	})
	<-p.Ended
	return nil
}
