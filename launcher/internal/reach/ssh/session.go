package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// host is a remote.Host over one SSH connection: each command has a session of it.
type host struct {
	name  string
	login *login
	once  sync.Once
	err   error
}

// Name is the host as the user called it.
func (h *host) Name() string { return h.name }

// Close closes the connection, and with it every command's streams.
func (h *host) Close() error {
	h.once.Do(func() { h.err = h.login.Close() })
	return h.err
}

// Start runs a line by the login shell of the user there: without a terminal, and
// without any of our environment.
func (h *host) Start(ctx context.Context, line string) (remote.Process, error) {
	began := time.Now()
	type result struct {
		process *process
		err     error
	}
	done := make(chan result, 1)
	go func() {
		p, err := start(h.login, line)
		done <- result{p, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, h.startError(r.err, began)
		}
		return r.process, nil
	case <-ctx.Done():
		go func() { // ends at the latest with the connection
			if r := <-done; r.process != nil {
				_ = r.process.Close()
			}
		}()
		return nil, h.startError(fmt.Errorf("given up: %w", context.Cause(ctx)), began)
	}
}

// startError says why a command was not started.
func (h *host) startError(err error, began time.Time) error {
	failure := remote.Failed(h.name, remote.StepStart, began, err.Error(), err)
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(err, &refused):
		failure.Text = printable.Text(fmt.Sprintf("the host opens no session: %s (%s)", refused.Message, refused.Reason))
		failure.Hint = "its MaxSessions may be too low"
	case errors.Is(err, context.DeadlineExceeded):
		failure.Text = "the host starts no command: its link or its sshd may hang"
	case errors.Is(err, io.EOF):
		failure.Text = "the connection is lost"
	}
	return failure
}

// process is a command in a session.
type process struct {
	stdout  io.Reader
	stdin   io.WriteCloser
	session *ssh.Session
	said    remote.Tail
	hangUp  func() error // ends the connection
	busy    atomic.Int32 // calls under way
}

func start(l *login, line string) (_ *process, err error) {
	session, err := l.client.NewSession()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = session.Close()
		}
	}()
	p := &process{session: session, hangUp: l.Close}
	session.Stderr = &p.said
	if p.stdout, err = session.StdoutPipe(); err != nil {
		return nil, err
	}
	if p.stdin, err = session.StdinPipe(); err != nil {
		return nil, err
	}
	return p, session.Start(line)
}

func (p *process) Read(b []byte) (int, error) {
	defer p.enter()()
	return p.stdout.Read(b)
}

func (p *process) Write(b []byte) (int, error) {
	defer p.enter()()
	return p.stdin.Write(b)
}

// enter notes a call that may wait for the host, leave its end.
func (p *process) enter() (leave func()) {
	p.busy.Add(1)
	return func() { p.busy.Add(-1) }
}

// CloseWrite ends its standard input.
func (p *process) CloseWrite() error { return p.stdin.Close() }

// Stderr is the end of what it has written to standard error.
func (p *process) Stderr() string { return p.said.String() }

// closeTime is how long a host may take to answer the end of a session.
const closeTime = 2 * time.Second

// Close ends the session, which the host has to answer. Where it does not, as its link
// is cut, whoever still reads or writes would wait for ever: then the connection ends.
func (p *process) Close() error {
	defer p.enter()()
	time.AfterFunc(closeTime, func() {
		if p.busy.Load() > 0 {
			_ = p.hangUp()
		}
	})
	if err := p.session.Close(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Wait waits for the command's end.
func (p *process) Wait() error {
	err := p.session.Wait()
	var ended *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &ended):
		return &remote.ExitError{Code: ended.ExitStatus(), Signal: printable.Text(ended.Signal())}
	case errors.As(err, &missing):
		return fmt.Errorf("the connection was lost before the command's end: %w", err)
	}
	return err
}
