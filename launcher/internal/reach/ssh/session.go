package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// host is a remote.Host over one SSH connection, with a session for each command.
type host struct {
	name  string
	login *login
	once  sync.Once
	err   error
}

// Name returns the host's name as the user gave it.
func (h *host) Name() string { return h.name }

// Close closes the connection, and with it the streams of every command.
func (h *host) Close() error {
	h.once.Do(func() { h.err = h.login.Close() })
	return h.err
}

// Start runs a line by the user's login shell, without a terminal and without any of our environment.
func (h *host) Start(ctx context.Context, line string) (remote.Process, error) {
	began := time.Now()
	// Before the call and during it: x/crypto waits forever for a channel that it opens after the connection has ended.
	select {
	case <-h.login.ended:
		return nil, h.startError(io.EOF, began)
	default:
	}
	var p *process
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		p, err = start(h.login, line)
	}()
	var why error
	select {
	case <-done:
		if err != nil {
			return nil, h.startError(err, began)
		}
		return p, nil
	case <-h.login.ended:
		why = io.EOF
	case <-ctx.Done():
		why = fmt.Errorf("given up: %w", context.Cause(ctx))
	}
	go func() {
		<-done // closing the connection would end it
		if p != nil {
			_ = p.Close()
		}
	}()
	return nil, h.startError(why, began)
}

func (h *host) startError(err error, began time.Time) error {
	failure := remote.Failed(h.name, remote.StepStart, began, err.Error(), err)
	refused, isRefused := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case isRefused:
		failure.Text = printable.Text(fmt.Sprintf("the host refuses a session: %s (%s)", refused.Message, refused.Reason))
		failure.Hint = "raise MaxSessions in its sshd_config"
	case errors.Is(err, context.DeadlineExceeded):
		failure.Text = "the host does not start commands: the network or its sshd may hang"
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
	stderr  remote.Tail
	login   *login
	calls   atomic.Int32 // that may wait for the host
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
	p := &process{session: session, login: l}
	session.Stderr = &p.stderr
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

// enter counts a call until leave.
func (p *process) enter() (leave func()) {
	p.calls.Add(1)
	return func() { p.calls.Add(-1) }
}

// farRoundTrip is in µs.
const farRoundTrip = 10_000

// Near reports whether packets reach the host and come back soon, however busy it is. False if nobody knows, as behind
// a jump host.
func (p *process) Near() (near bool) {
	if conn, ok := p.login.conn.(*net.TCPConn); ok {
		raw, err := conn.SyscallConn()
		if err != nil {
			return false
		}
		_ = raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			near = err == nil && 0 < info.Min_rtt && info.Min_rtt < farRoundTrip // 0: the kernel is older than 4.6
		})
	}
	return near
}

// settleTimeout limits how long Settle waits: a server may ignore requests that it does not know.
const settleTimeout = time.Second

// Settle waits until the host has read what was written, and reports whether it has.
func (p *process) Settle() bool {
	defer p.enter()()
	settled := make(chan struct{})
	go func() {
		// sshd knows no such request, and says so once it has read everything before.
		_, _ = p.session.SendRequest("keepalive@openssh.com", true, nil)
		close(settled)
	}()
	select {
	case <-settled:
		return true
	case <-time.After(settleTimeout):
		return false
	}
}

// CloseWrite closes its standard input.
func (p *process) CloseWrite() error { return p.stdin.Close() }

// Stderr returns the end of what it has written to standard error.
func (p *process) Stderr() string { return p.stderr.String() }

// closeTimeout limits how long a host may take to confirm the end of a session.
const closeTimeout = 2 * time.Second

// Close closes the session. If the host does not confirm it, as on a dead link, Close closes the connection, so that
// blocked reads and writes return.
func (p *process) Close() error {
	defer p.enter()()
	time.AfterFunc(closeTimeout, func() {
		if p.calls.Load() > 0 {
			_ = p.login.Close()
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
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return &remote.ExitError{Code: exit.ExitStatus(), Signal: printable.Text(exit.Signal())}
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok {
		return errors.New("the connection was lost before the command ended")
	}
	return err
}
