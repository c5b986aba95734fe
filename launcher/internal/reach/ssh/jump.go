package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"gorun/launcher/internal/reach/remote"
)

// jumps are the logins to jump hosts until the Client is closed: one connection each, whatever the number of hosts
// behind it.
type jumps struct {
	mu   sync.Mutex
	open map[string]*jump
}

// jump is a login that several connections share.
type jump struct {
	ready chan struct{} // closed after login and err are set
	login *login
	err   error
	on    *jump // whose login this one needs first, guarded by jumps.mu; nil: none
}

// jumpsOf parses ProxyJump: [user@]host[:port] or ssh://… of each, the nearest first.
func jumpsOf(s *settings) (chain []remote.Target) {
	if s.proxyJump == "" {
		return nil
	}
	for _, hop := range strings.Split(s.proxyJump, ",") {
		hop = strings.TrimPrefix(strings.TrimSpace(hop), "ssh://")
		var t remote.Target
		if at := strings.LastIndexByte(hop, '@'); at >= 0 {
			t.User, hop = hop[:at], hop[at+1:]
		}
		t.Name = strings.Trim(hop, "[]")
		if host, port, err := net.SplitHostPort(hop); err == nil {
			t.Name = host
			t.Port, _ = strconv.Atoi(port)
		}
		chain = append(chain, t)
	}
	return chain
}

// connectThrough connects from the last of the jump hosts.
func (c *Client) connectThrough(b *budget, s *settings, chain []remote.Target) (net.Conn, error) {
	last := chain[len(chain)-1]
	login, err := c.jumpLogin(b, chain)
	if err != nil {
		failure, ok := errors.AsType[*remote.Error](err)
		if !ok {
			return nil, fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
		}
		return nil, fail(remote.StepConnect, err, "jump host %s: %s: %s", last.Name, failure.Step, failure.Text).
			WithHint("%s", failure.Hint)
	}
	dialing := c.dialBudget(b, s)
	defer dialing.stop()
	conn, err := login.client.DialContext(dialing.ctx, "tcp", s.address())
	if err == nil {
		return conn, nil
	}
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fail(remote.StepConnect, err, "jump host %s cannot connect to %s: %s (%s)", last.Name, s,
			refused.Message, refused.Reason)
	}
	if dialing.ctx.Err() != nil {
		return nil, timeoutError(remote.StepConnect, s, dialing)
	}
	return nil, fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
}

// jumpLogin returns the login to the last jump host of a chain, which other connections may share.
func (c *Client) jumpLogin(b *budget, chain []remote.Target) (*login, error) {
	key, own := fmt.Sprint(chain), b.outermost().jump
	c.jumps.mu.Lock()
	j := c.jumps.open[key]
	for next := j; next != nil && own != nil; next = next.on {
		if next == own {
			c.jumps.mu.Unlock()
			return nil, fail(remote.StepConfig, nil, "ProxyJump forms a loop")
		}
	}
	if j == nil {
		j = &jump{ready: make(chan struct{})}
		c.jumps.open[key] = j
		go c.keepJump(b, chain, j)
	}
	if own != nil {
		own.on = j
	}
	c.jumps.mu.Unlock()
	defer b.suspend()() // that login has a limit of its own, which leaves out its prompts
	select {
	case <-j.ready:
		return j.login, j.err
	case <-b.ctx.Done():
		return nil, fail(remote.StepConnect, context.Cause(b.ctx), "not reached in time")
	}
}

// keepJump logs in to a jump host for all connections that wait, and forgets the login once it has failed or ended.
func (c *Client) keepJump(b *budget, chain []remote.Target, j *jump) {
	own := newBudget(remote.WithoutProgress(context.WithoutCancel(b.ctx)), b.outermost().limit)
	own.jump = j
	j.login, j.err = c.reachJump(own, chain)
	own.stop()
	close(j.ready)
	if j.err == nil {
		<-j.login.ended
	}
	c.jumps.mu.Lock()
	defer c.jumps.mu.Unlock()
	delete(c.jumps.open, fmt.Sprint(chain))
}

func (j *jumps) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.open {
		go func() { // its login may not be done yet
			<-one.ready
			if one.login != nil {
				_ = one.login.Close()
			}
		}()
	}
}

// reachJump logs in to the last host of a chain through the ones before it. The configuration may give the first one
// jump hosts of its own, as with ssh -J.
func (c *Client) reachJump(b *budget, chain []remote.Target) (*login, error) {
	before, last := chain[:len(chain)-1], chain[len(chain)-1]
	s, err := c.settings(b.ctx, last)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "%v", err)
	}
	if len(before) == 0 {
		if before = jumpsOf(s); len(before) == 1 && before[0] == last {
			before = nil
		}
	}
	return c.login(b, s, before)
}
