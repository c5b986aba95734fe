package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/launcher/internal/reach/remote"
)

// connect makes the connection that SSH is spoken over: TCP, by a proxy command, or
// through jump hosts. under is the proxy command, which must be closed after it; nil for none.
func (c *Client) connect(clock *clock, s *settings, chain []remote.Target) (conn net.Conn, under io.Closer, err error) {
	if len(chain) > 0 {
		conn, err = c.through(clock, s, chain)
		return conn, nil, err
	}
	if s.proxyCommand != "" { // what it takes to connect it does not say
		p, err := c.startProxy(s)
		if err != nil {
			return nil, nil, fail(remote.StepConnect, err, "proxy command %q: %v", s.proxyCommand, err)
		}
		return p, ending{p}, nil
	}
	dialing := c.connecting(clock, s)
	defer dialing.stop()
	conn, err = dialTCP(dialing.ctx, s)
	if err != nil {
		s.noteAddress(err)
		return nil, nil, connectError(err, s, dialing)
	}
	return conn, nil, nil
}

// connecting is the limit of a TCP connection. A host that does not accept one is down; what comes
// later may be slow.
func (c *Client) connecting(clock *clock, s *settings) *clock {
	if s.connectTimeout > 0 { // the clock has that
		return clock.within(0)
	}
	return clock.within(c.config.ConnectTimeout)
}

// noteAddress has messages name the address behind the host's name.
func (s *settings) noteAddress(err error) {
	var failed *net.OpError
	if !errors.As(err, &failed) || failed.Addr == nil {
		return
	}
	if addr, _, err := net.SplitHostPort(failed.Addr.String()); err == nil && addr != s.hostName {
		s.dialed = addr
	}
}

// dialTCP connects to the host itself; with several addresses to the one that
// answers first.
func dialTCP(ctx context.Context, s *settings) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second,
		Interval: 5 * time.Second, Count: 6,
	}}
	if s.bindAddress != "" {
		addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(s.bindAddress, "0"))
		if err != nil {
			return nil, err
		}
		dialer.LocalAddr = addr
	}
	network := map[string]string{"inet": "tcp4", "inet6": "tcp6"}[s.family]
	if network == "" {
		network = "tcp"
	}
	return dialer.DialContext(ctx, network, net.JoinHostPort(s.hostName, strconv.Itoa(s.port)))
}

// connectError says why there is no TCP connection.
func connectError(err error, s *settings, clock *clock) error {
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		if unknown.IsNotFound {
			return fail(remote.StepResolve, err, "no address for the name %s is known", s.hostName).
				hint("a HostName line in ~/.ssh/config or a line in /etc/hosts gives one; getent hosts NAME asks the resolver")
		}
		return fail(remote.StepResolve, err, "looking up %s: %s", s.hostName, unknown.Err)
	}
	if clock.ctx.Err() != nil {
		return timedOut(remote.StepConnect, s, clock)
	}
	for _, known := range []struct {
		number syscall.Errno
		text   string
		hint   string
	}{
		{syscall.ECONNREFUSED, "connection to %s refused: nothing listens there", "is sshd running, and is it this port?"},
		{syscall.EHOSTUNREACH, "no route to %s", "is the host up, and its address right?"},
		{syscall.ENETUNREACH, "no route to the network of %s", "is a network up? ip route lists what this host reaches"},
		{syscall.ETIMEDOUT, "%s does not answer", "is the host up? A firewall may drop packets"},
	} {
		if errors.Is(err, known.number) {
			return fail(remote.StepConnect, err, known.text, s).hint("%s", known.hint)
		}
	}
	return fail(remote.StepConnect, err, "connection to %s: %v", s, err)
}

// stepWords say what was being waited for when time ran out.
var stepWords = map[remote.Step]string{
	remote.StepConnect: "%s does not answer",
	remote.StepKeys:    "%s takes connections but says nothing: its sshd or the host may be frozen",
	remote.StepHostKey: "%s: the host's key was not checked in time",
	remote.StepAuth:    "%s does not say whether it lets us in",
	remote.StepStart:   "%s does not start commands",
}

// timedOut is a host that was waited for too long, or until the caller gave up.
func timedOut(step remote.Step, s *settings, clock *clock) error {
	cause := context.Cause(clock.ctx)
	what := s.String()
	switch {
	case s.proxyCommand != "":
		what += " by proxy command"
	case s.proxyJump != "":
		what += " through jump host " + s.proxyJump
	}
	if limit, late := clock.late(); late {
		format := stepWords[step]
		if limit <= 0 {
			return fail(step, cause, format, what)
		}
		return fail(step, cause, format+" (waited %s)", what, limit)
	}
	return fail(step, cause, "%s: given up: %v", what, cause)
}

// withProxyWords adds what a proxy command said to the error that followed from it.
func withProxyWords(err error, under io.Closer) error {
	end, ok := under.(ending)
	if !ok {
		return err
	}
	p := end.proxy
	var dropped *droppedError
	var failure *remote.Error
	drop := errors.As(err, &dropped)
	if !drop && (!errors.As(err, &failure) || failure.Step > remote.StepKeys) {
		return err // the command has done its part
	}
	words := p.words()
	switch {
	case words == "":
		return err
	case drop:
		return fail(remote.StepConnect, err, "proxy command %q ended the connection: %s", p.line, words)
	}
	return fail(failure.Step, err, "%s; proxy command: %s", failure.Text, words)
}

// droppedError is a connection that the other side closed before the exchange of
// keys was over.
type droppedError struct{ cause error }

func (d *droppedError) Error() string { return "closed early: " + d.cause.Error() }
func (d *droppedError) Unwrap() error { return d.cause }

// handshake turns a connection into one that is logged in.
func (c *Client) handshake(clock *clock, s *settings, conn net.Conn) (*ssh.Client, error) {
	h := &handshake{client: c, settings: s, clock: clock}
	h.begin(remote.StepKeys)
	type result struct {
		client *ssh.Client
		err    error
	}
	done := make(chan result, 1)
	go func() {
		config, err := h.config()
		if err != nil {
			done <- result{nil, err}
			return
		}
		sshConn, channels, requests, err := ssh.NewClientConn(conn, net.JoinHostPort(s.hostName, strconv.Itoa(s.port)),
			config)
		if err != nil {
			done <- result{nil, err}
			return
		}
		done <- result{ssh.NewClient(sshConn, channels, requests), nil}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, h.explain(r.err)
		}
		return r.client, nil
	case <-clock.ctx.Done():
		// Who waits for an agent that says nothing is not reached by closing the connection: he is left to Client.Close.
		_ = conn.Close()
		return nil, timedOut(remote.Step(h.step.Load()), s, clock)
	}
}
