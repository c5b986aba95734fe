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

// Program is a command of this host whose standard streams are a connection: ssh, kubectl exec, a proxy command. It
// is a [Process].
type Program struct {
	In, Out *os.File      // its standard input and output
	Ended   chan struct{} // closed once it was waited for
	Err     error         // what waiting for it brought, then

	cmd  *child.Cmd
	said Tail
	once sync.Once
}

// Start starts a program in a session of its own: a Ctrl-C on the terminal is gorun's, who ends the job in order, and
// needs this way for it. kept is how long after its end something else may hold its standard error.
func Start(words, environ []string, kept time.Duration) (*Program, error) {
	p := &Program{cmd: child.Command(words[0], words[1:]...)}
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = environ, &p.said, kept
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return p, p.start(p.cmd.Start)
}

// StartMerged is Run for a program whose standard error is wanted with its output, and which gets SIGTERM where this
// process is killed.
func StartMerged(words, environ []string) (*Program, error) {
	p := &Program{cmd: child.Command(words[0], words[1:]...)}
	p.cmd.Env = environ
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	return p, p.start(func() error {
		// The kernel takes the end of this thread for this process's end: prctl(2), PR_SET_PDEATHSIG.
		runtime.LockOSThread()
		return p.cmd.Start()
	})
}

// start makes the streams, and starts and waits for the program on one goroutine.
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

// Signal sends a signal to the program and what it has started in its session's first group, unless it has ended.
func (p *Program) Signal(signal syscall.Signal) {
	select {
	case <-p.Ended:
	default: // the group is the session's, whose number nobody else has while a member lives
		_ = syscall.Kill(-p.cmd.Process.Pid, signal)
	}
}

// Read reads what the program writes to its standard output.
func (p *Program) Read(b []byte) (int, error) {
	n, err := p.Out.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Write writes to its standard input.
func (p *Program) Write(b []byte) (int, error) { return p.In.Write(b) }

// CloseWrite ends its standard input.
func (p *Program) CloseWrite() error { return p.In.Close() }

// CloseStreams ends both; a program should end at that.
func (p *Program) CloseStreams() {
	_ = p.In.Close()
	_ = p.Out.Close()
}

// Stderr is the end of what the program, or the command by it, wrote to standard error.
func (p *Program) Stderr() string { return p.said.String() }

// Wait waits for the program's end. A program that cannot reach the host ends with a
// code of its own (ssh: 255) and says why on standard error.
func (p *Program) Wait() error {
	<-p.Ended
	p.CloseStreams()
	var ended *exec.ExitError
	switch {
	case p.Err == nil || errors.Is(p.Err, exec.ErrWaitDelay):
		return nil
	case errors.As(p.Err, &ended):
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			name := strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
			return &ExitError{Code: 128 + int(status.Signal()), Signal: name}
		}
		return &ExitError{Code: ended.ExitCode()}
	}
	return p.Err
}

// Close ends the program and what it has started in its session's first group.
func (p *Program) Close() error {
	p.once.Do(func() {
		p.Signal(syscall.SIGKILL) // before its input ends, by which it may come to a good end of its own
		p.CloseStreams()
	})
	<-p.Ended
	return nil
}
