package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"gorun/launcher/internal/reach/remote"
)

// jumps are the jump hosts that are logged in, until the Client is closed: one connection each, whatever the
// number of hosts behind it.
type jumps struct {
	mu   sync.Mutex
	open map[string]*jump
}

// jump is a jump host that several connections may stand upon.
type jump struct {
	ready chan struct{} // closed once login and err are set
	login *login
	err   error
}

// jumpsOf takes apart ProxyJump: [user@]host[:port] or ssh://… of each, the nearest
// to us first.
func jumpsOf(s *settings) (chain []remote.Target) {
	if s.proxyJump == "" {
		return nil
	}
	for _, one := range strings.Split(s.proxyJump, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "ssh://")
		var t remote.Target
		if at := strings.LastIndexByte(one, '@'); at >= 0 {
			t.User, one = one[:at], one[at+1:]
		}
		t.Name = strings.Trim(one, "[]")
		if host, port, err := net.SplitHostPort(one); err == nil {
			t.Name = host
			t.Port, _ = strconv.Atoi(port)
		}
		chain = append(chain, t)
	}
	return chain
}

// through connects by the last of the jump hosts.
func (c *Client) through(clock *clock, s *settings, chain []remote.Target) (net.Conn, error) {
	last := chain[len(chain)-1]
	login, err := c.jump(clock, chain)
	if err != nil {
		return nil, jumpError(err, last)
	}
	dialing := c.connecting(clock, s)
	defer dialing.stop()
	conn, err := login.client.DialContext(dialing.ctx, "tcp", net.JoinHostPort(s.hostName, strconv.Itoa(s.port)))
	if err != nil {
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			return nil, fail(remote.StepConnect, err, "jump host %s cannot connect to %s: %s (%s)", last.Name, s,
				refused.Message, refused.Reason)
		}
		if dialing.ctx.Err() != nil {
			return nil, timedOut(remote.StepConnect, s, dialing)
		}
		return nil, fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
	}
	return conn, nil
}

// jumpError says that it was the jump host which could not be reached.
func jumpError(err error, last remote.Target) error {
	var failure *remote.Error
	if !errors.As(err, &failure) {
		return fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
	}
	f := fail(remote.StepConnect, err, "jump host %s: %s: %s", last.Name, failure.Step, failure.Text)
	f.problem.Hint = failure.Hint
	return f
}

// jump logs in to the last jump host of a chain, or waits for who does.
func (c *Client) jump(clock *clock, chain []remote.Target) (*login, error) {
	key, above := fmt.Sprint(chain), clock.outermost().above
	if slices.Contains(above, key) {
		return nil, fail(remote.StepConfig, nil, "ProxyJump leads in a circle")
	}
	c.jumps.mu.Lock()
	one := c.jumps.open[key]
	if one == nil {
		one = &jump{ready: make(chan struct{})}
		c.jumps.open[key] = one
		go c.keepJump(clock, chain, one)
	}
	c.jumps.mu.Unlock()
	select {
	case <-one.ready:
		return one.login, one.err
	case <-clock.ctx.Done():
		return nil, fail(remote.StepConnect, context.Cause(clock.ctx), "not reached in time")
	}
}

// keepJump logs in to a jump host, for all who wait for it, and makes the next one try again where that fails, or
// once the connection has ended.
func (c *Client) keepJump(clock *clock, chain []remote.Target, one *jump) {
	key, outermost := fmt.Sprint(chain), clock.outermost()
	own := newClock(remote.WithoutProgress(context.WithoutCancel(clock.ctx)), outermost.limit)
	own.above = append(slices.Clone(outermost.above), key)
	one.login, one.err = c.reachJump(own, chain)
	own.stop()
	close(one.ready)
	if one.err == nil {
		_ = one.login.client.Wait()
	}
	c.jumps.mu.Lock()
	defer c.jumps.mu.Unlock()
	delete(c.jumps.open, key)
}

// close ends the connections to jump hosts.
func (j *jumps) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.open {
		go func() { // a login may be under way still
			<-one.ready
			if one.login != nil {
				_ = one.login.Close()
			}
		}()
	}
}

// reachJump logs in to the last of a chain through the ones before it. The first one
// may have jump hosts of its own by its configuration, as with ssh -J.
func (c *Client) reachJump(clock *clock, chain []remote.Target) (*login, error) {
	before, last := chain[:len(chain)-1], chain[len(chain)-1]
	s, err := c.settings(clock.ctx, last)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "%v", err)
	}
	if len(before) == 0 && s.proxyJump != "" {
		if before = jumpsOf(s); len(before) == 1 && before[0] == last {
			before = nil
		}
	}
	return c.login(clock, s, before)
}
