package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/internal/reach/remote"
)

// fail returns an error of a step, to which Dial adds host and time. It removes control bytes from values.
func fail(step remote.Step, err error, format string, values ...any) *remote.Error {
	return &remote.Error{Step: step, Text: printable.Text(fmt.Sprintf(format, values...)), Err: err}
}

// droppedError reports a connection that the other side closed before the key exchange was over.
type droppedError struct{ cause error }

func (d *droppedError) Error() string { return "closed early: " + d.cause.Error() }
func (d *droppedError) Unwrap() error { return d.cause }

// recordAddress lets messages show the address behind the host's name.
func (s *settings) recordAddress(err error) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Addr == nil {
		return
	}
	if addr, _, err := net.SplitHostPort(op.Addr.String()); err == nil && addr != s.hostName {
		s.dialed = addr
	}
}

// connectError is the error of a TCP connection.
func connectError(err error, s *settings, b *budget) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return resolveError(dns, s)
	}
	if b.ctx.Err() != nil {
		return timeoutError(remote.StepConnect, s, b)
	}
	for _, known := range []struct {
		number syscall.Errno
		text   string
		hint   string
	}{
		{syscall.ECONNREFUSED, "connection to %s refused", "check that sshd runs there, at this port"},
		{syscall.EHOSTUNREACH, "no route to %s", "check that the host is up and has this address"},
		{syscall.ENETUNREACH, "no route to the network of %s", "run `ip route` to list the networks that this host reaches"},
		{syscall.ETIMEDOUT, "%s does not answer", "check that the host is up and no firewall drops packets"},
	} {
		if errors.Is(err, known.number) {
			return fail(remote.StepConnect, err, known.text, s).WithHint("%s", known.hint)
		}
	}
	return fail(remote.StepConnect, err, "connection to %s: %s", s, printable.Error(err))
}

func resolveError(err *net.DNSError, s *settings) error {
	what := "host name"
	if s.hostName != s.target.Name { // the configuration gives it another name
		what = s.hostName
	}
	failure := fail(remote.StepResolve, err, "cannot resolve %s", what)
	failure.Target = s.hostName
	if !err.IsNotFound {
		cause := errors.New(err.Err[strings.LastIndex(err.Err, ": ")+1:]) // without Go's "dial udp 10.0.0.1:53: connect"
		failure.Text += ": no name server answers (" + strings.TrimSpace(printable.Error(cause)) + ")"
	}
	return failure.WithHint("run `getent hosts %s` to ask the resolver; add a HostName line to ~/.ssh/config, or a line "+
		"to /etc/hosts", shellwords.Quote(s.hostName))
}

// timeoutTexts say what a step was waiting for.
var timeoutTexts = map[remote.Step]string{
	remote.StepConnect: "%s does not answer",
	remote.StepKeys:    "%s accepts connections but sends nothing: its sshd or the host may be frozen",
	remote.StepHostKey: "%s: the host's key was not checked in time",
	remote.StepAuth:    "%s does not complete the authentication",
	remote.StepStart:   "%s does not start commands",
}

// timeoutError is the error when a budget has ended.
func timeoutError(step remote.Step, s *settings, b *budget) error {
	cause := context.Cause(b.ctx)
	target := s.String()
	switch {
	case s.proxyCommand != "":
		target += " by proxy command"
	case s.proxyJump != "":
		target += " through jump host " + s.proxyJump
	}
	limit, timedOut := b.timedOut()
	switch {
	case !timedOut:
		return fail(step, cause, "%s: given up: %v", target, cause)
	case limit <= 0:
		return fail(step, cause, timeoutTexts[step], target)
	}
	return fail(step, cause, timeoutTexts[step]+" (waited %s)", target, limit)
}
