package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/internal/printable"
	"gorun/launcher/internal/transport/remote"
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
		p, err := start(h.login.client, line)
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
	failure := &remote.Error{Host: printable.Text(h.name), Step: remote.StepStart, After: time.Since(began), Text: printable.Text(err.Error()), Err: err}
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(err, &refused):
		failure.Text = printable.Text(fmt.Sprintf("the host opens no session: %s (%s)", refused.Message, refused.Reason))
		failure.Hint = "its MaxSessions may be too low"
	case errors.Is(err, io.EOF):
		failure.Text = "the connection is lost"
	}
	return failure
}

// process is a command in a session.
type process struct {
	io.Reader
	io.WriteCloser
	session *ssh.Session
	said    remote.Tail
}

func start(client *ssh.Client, line string) (_ *process, err error) {
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = session.Close()
		}
	}()
	p := &process{session: session}
	session.Stderr = &p.said
	if p.Reader, err = session.StdoutPipe(); err != nil {
		return nil, err
	}
	if p.WriteCloser, err = session.StdinPipe(); err != nil {
		return nil, err
	}
	return p, session.Start(line)
}

// CloseWrite ends its standard input.
func (p *process) CloseWrite() error { return p.WriteCloser.Close() }

// Stderr is the end of what it has written to standard error.
func (p *process) Stderr() string { return p.said.String() }

// Close ends the session.
func (p *process) Close() error {
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
