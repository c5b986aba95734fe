package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"gorun/launcher/internal/reach/remote"
)

// jumps are the jump hosts that are logged in: one connection each, whatever the
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
	users int
}

// jumpsOf takes apart ProxyJump: [user@]host[:port] or ssh://… of each, the nearest
// to us first.
func jumpsOf(s *settings) (chain []Target) {
	if s.proxyJump == "" {
		return nil
	}
	for _, one := range strings.Split(s.proxyJump, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "ssh://")
		var t Target
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
func (c *Client) through(clock *clock, s *settings, chain []Target) (net.Conn, io.Closer, error) {
	last := chain[len(chain)-1]
	share, err := c.share(clock, chain)
	if err != nil {
		return nil, nil, jumpError(err, last)
	}
	dialing := c.connecting(clock, s)
	defer dialing.stop()
	conn, err := share.jump.login.client.DialContext(dialing.ctx, "tcp",
		net.JoinHostPort(s.hostName, strconv.Itoa(s.port)))
	if err != nil {
		_ = share.Close()
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			return nil, nil, fail(remote.StepConnect, err, "jump host %s cannot connect to %s: %s (%s)", last.Name, s,
				refused.Message, refused.Reason)
		}
		if dialing.ctx.Err() != nil {
			return nil, nil, timedOut(remote.StepConnect, s, dialing)
		}
		return nil, nil, fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
	}
	return conn, share, nil
}

// jumpError says that it was the jump host which could not be reached.
func jumpError(err error, last Target) error {
	var failure *remote.Error
	if !errors.As(err, &failure) {
		return fail(remote.StepConnect, err, "jump host %s: %v", last.Name, err)
	}
	f := fail(remote.StepConnect, err, "jump host %s: %s: %s", last.Name, failure.Step, failure.Text)
	f.problem.Hint = failure.Hint
	return f
}

// share is a use of a jump host.
type share struct {
	client *Client
	key    string
	jump   *jump
	once   sync.Once
}

// Close gives the use back; the last one closes the connection.
func (s *share) Close() error {
	s.once.Do(func() { s.client.jumps.release(s.key, s.jump) })
	return nil
}

func (j *jumps) release(key string, one *jump) {
	j.mu.Lock()
	one.users--
	last := one.users == 0
	if last && j.open[key] == one {
		delete(j.open, key)
	}
	j.mu.Unlock()
	if last {
		<-one.ready
		if one.login != nil {
			_ = one.login.Close()
		}
	}
}

// take finds or makes the entry of a jump host.
func (j *jumps) take(key string) (one *jump, fresh bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if one = j.open[key]; one == nil {
		one, fresh = &jump{ready: make(chan struct{})}, true
		if j.open == nil {
			j.open = map[string]*jump{}
		}
		j.open[key] = one
	}
	one.users++
	return one, fresh
}

// share logs in to the last jump host of a chain, or waits for who does.
func (c *Client) share(clock *clock, chain []Target) (*share, error) {
	key, above := fmt.Sprint(chain), clock.outermost().above
	if slices.Contains(above, key) {
		return nil, fail(remote.StepConfig, nil, "ProxyJump leads in a circle")
	}
	one, fresh := c.jumps.take(key)
	s := &share{client: c, key: key, jump: one}
	if fresh {
		go func() {
			// others may wait for it, too
			own := newClock(remote.Unwatched(context.WithoutCancel(clock.ctx)), clock.outermost().limit)
			own.above = append(slices.Clone(above), key)
			defer own.stop()
			one.login, one.err = c.reachJump(own, chain)
			if one.err != nil {
				c.jumps.forget(key, one)
			}
			close(one.ready)
		}()
	}
	select {
	case <-one.ready:
	case <-clock.ctx.Done():
		go func() { _ = s.Close() }() // waits for the end of the attempt
		return nil, fail(remote.StepConnect, context.Cause(clock.ctx), "not reached in time")
	}
	if one.err != nil {
		_ = s.Close()
		return nil, one.err
	}
	return s, nil
}

// forget makes the next one try again.
func (j *jumps) forget(key string, one *jump) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[key] == one {
		delete(j.open, key)
	}
}

// reachJump logs in to the last of a chain through the ones before it. The first one
// may have jump hosts of its own by its configuration, as with ssh -J.
func (c *Client) reachJump(clock *clock, chain []Target) (*login, error) {
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
