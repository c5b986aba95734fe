package remote

import (
	"errors"
	"io"
	"os"
	"os/exec"
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

	cmd  *child.Cmd
	said Tail
	err  error // what waiting for it brought
	once sync.Once
}

// Run starts a program in a session of its own: a Ctrl-C on the terminal is gorun's, who ends the job in order, and
// needs this way for it. kept is how long after its end something else may hold its standard error.
func Run(words, environ []string, kept time.Duration) (*Program, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	p := &Program{In: in, Out: out, Ended: make(chan struct{}), cmd: child.Command(words[0], words[1:]...)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = theirIn, theirOut, &p.said, environ
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.WaitDelay = kept
	if err = errors.Join(p.cmd.Start(), theirIn.Close(), theirOut.Close()); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
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
	case p.err == nil || errors.Is(p.err, exec.ErrWaitDelay):
		return nil
	case errors.As(p.err, &ended):
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			name := strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
			return &ExitError{Code: 128 + int(status.Signal()), Signal: name}
		}
		return &ExitError{Code: ended.ExitCode()}
	}
	return p.err
}

// Close ends the program and what it has started in its session's first group.
func (p *Program) Close() error {
	p.once.Do(func() {
		select {
		case <-p.Ended:
		default: // before its input ends, by which it may come to a good end of its own
			// The group is the session's, whose number nobody else has while a member lives.
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
		p.CloseStreams()
	})
	<-p.Ended
	return nil
}
