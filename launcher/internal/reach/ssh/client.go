// Package ssh logs in to other hosts with the user's own SSH configuration, keys and known hosts, and runs commands
// there. It does not read the environment: Config has what it needs of it.
package ssh

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// DefaultTimeout limits Dial unless Config does.
const DefaultTimeout = time.Minute

// Config configures a Client.
type Config struct {
	// ConfigFile replaces the user's and the system's configuration, as ssh -F does; "" reads those two.
	ConfigFile string
	// AcceptNew adds keys of unknown hosts to the first known_hosts file. A changed key is refused all the same.
	AcceptNew bool
	// Prompt asks the user for a secret; nil without a terminal. There is one call at a time, and one per key whatever the
	// number of hosts.
	Prompt func(prompt string) (secret string, err error)
	// Timeout limits Dial, without the time of Prompt; 0 means DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout limits the TCP connection to a host whose configuration has no limit; 0 means Timeout.
	ConnectTimeout time.Duration
	// Notify receives notes for the user, each once; nil drops them.
	Notify func(note string)
	// Environ is the user's environment in the form of os.Environ: HOME, USER, PATH, SSH_AUTH_SOCK and variables that the
	// configuration refers to as ${VARIABLE}. Programs that are started (ssh -G, proxy commands) get all of it.
	Environ []string
}

// Client logs in to hosts. It holds what they share: keys, the connection to the agent, known hosts, and jump hosts. It
// is safe for concurrent use.
type Client struct {
	config  Config
	environ map[string]string
	keys    keyring
	known   knownHosts
	jumps   jumps
	queries chan struct{} // limits concurrent runs of ssh -G

	mu    sync.Mutex
	notes map[string]bool
}

// NewClient returns a Client. Close it after its hosts.
func NewClient(config Config) *Client {
	c := &Client{
		config: config, environ: map[string]string{}, notes: map[string]bool{},
		queries: make(chan struct{}, max(2, runtime.NumCPU())),
	}
	for _, pair := range config.Environ {
		name, value, _ := strings.Cut(pair, "=")
		c.environ[name] = value
	}
	if c.environ["HOME"] == "" { // never the working directory: it may be another user's
		c.environ["HOME"] = "/"
		if me, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(me.HomeDir) {
			c.environ["HOME"] = me.HomeDir
		}
	}
	c.keys = keyring{prompt: config.Prompt, files: map[string]*keyFile{}, agents: map[string]*agentConn{}}
	c.known.files = map[string][]knownLine{}
	c.jumps.open = map[string]*jump{}
	return c
}

// Close closes the connections to agents and jump hosts.
func (c *Client) Close() {
	c.keys.close()
	c.jumps.close()
}

// notify sends a note once.
func (c *Client) notify(note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.Notify != nil && !c.notes[note] {
		c.notes[note] = true
		c.config.Notify(note)
	}
}

// Dial logs in. ctx limits the attempt, not the Host. An error is a *remote.Error.
func (c *Client) Dial(ctx context.Context, target remote.Target) (remote.Host, error) {
	began, limit := time.Now(), c.config.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	b := newBudget(ctx, limit)
	defer b.stop()
	login, err := c.reach(b, target)
	if err == nil {
		return &host{name: target.Name, login: login}, nil
	}
	failure, ok := errors.AsType[*remote.Error](err)
	if !ok {
		failure = fail(remote.StepConnect, err, "%v", err)
	}
	failure.Host, failure.After = printable.Text(target.Name), time.Since(began)
	return nil, failure
}

// reach reads the configuration and logs in.
func (c *Client) reach(b *budget, target remote.Target) (*login, error) {
	remote.ReportStep(b.ctx, remote.StepConfig)
	s, err := c.settings(b.ctx, target)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "%v", err)
	}
	l, err := c.login(b, s, jumpsOf(s))
	if failure, ok := errors.AsType[*remote.Error](err); ok {
		failure.Target = cmp.Or(failure.Target, s.String())
	}
	return l, err
}

// login is an authenticated connection.
type login struct {
	client *ssh.Client
	conn   net.Conn      // below it
	proxy  *proxy        // the proxy command below it, nil for none
	ended  chan struct{} // closed when the connection is
}

// newLogin returns a login over an authenticated connection.
func newLogin(client *ssh.Client, conn net.Conn, proxy *proxy) *login {
	l := &login{client, conn, proxy, make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = client.Wait()
	}()
	return l
}

// Close closes the connection and what is below it.
func (l *login) Close() error {
	err := l.client.Close()
	l.proxy.kill()
	<-l.ended // so that no command starts from now on
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A busy sshd drops random connections before the handshake (its MaxStartups). Such a host is tried again.
const (
	dropRetries = 6
	firstPause  = 100 * time.Millisecond
)

// login connects and authenticates, again if the host drops the connection early.
func (c *Client) login(b *budget, s *settings, chain []remote.Target) (*login, error) {
	pause := firstPause
	for try := 0; ; try++ {
		l, err := c.tryLogin(b, s, chain)
		dropped, is := err.(*droppedError) // not wrapped: a jump host's own would be
		if !is {
			return l, err
		}
		if try == dropRetries {
			return nil, fail(remote.StepKeys, dropped.cause, "%s closed the connection %d times before the SSH handshake", s,
				try+1).
				WithHint("run `ssh -v %s` to see more: its MaxStartups or a firewall may limit connections", s.arguments())
		}
		if !b.sleep(jitter(pause)) {
			return nil, timeoutError(remote.StepKeys, s, b)
		}
		pause *= 2
	}
}

// tryLogin connects and authenticates once.
func (c *Client) tryLogin(b *budget, s *settings, chain []remote.Target) (*login, error) {
	inner := b.within(s.connectTimeout)
	defer inner.stop()
	remote.ReportStep(inner.ctx, remote.StepConnect)
	conn, proxy, err := c.connect(inner, s, chain)
	if err != nil {
		return nil, err
	}
	client, err := c.handshake(inner, s, conn)
	if err != nil {
		err = proxy.explain(err)
		_ = conn.Close()
		proxy.kill()
		return nil, err
	}
	return newLogin(client, conn, proxy), nil
}

// connect makes the connection that SSH uses: TCP, a proxy command (which is returned, too), or a channel of a jump
// host.
func (c *Client) connect(b *budget, s *settings, chain []remote.Target) (net.Conn, *proxy, error) {
	if len(chain) > 0 {
		conn, err := c.connectThrough(b, s, chain)
		return conn, nil, err
	}
	if s.proxyCommand != "" {
		p, err := c.startProxy(s)
		if err != nil {
			return nil, nil, fail(remote.StepConnect, err, "proxy command %q: %v", s.proxyCommand, err)
		}
		return p, p, nil
	}
	dialing := c.dialBudget(b, s)
	defer dialing.stop()
	conn, err := dialTCP(dialing.ctx, s)
	if err != nil {
		s.recordAddress(err)
		return nil, nil, connectError(err, s, dialing)
	}
	return conn, nil, nil
}

// dialBudget limits a TCP connection. A host that accepts none is down, whereas later steps may be slow.
func (c *Client) dialBudget(b *budget, s *settings) *budget {
	if s.connectTimeout > 0 { // b has this limit
		return b.within(0)
	}
	return b.within(c.config.ConnectTimeout)
}

// dialTCP connects to the host itself. With several addresses, the first that answers wins.
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
	network := "tcp"
	switch s.family {
	case "inet":
		network = "tcp4"
	case "inet6":
		network = "tcp6"
	}
	return dialer.DialContext(ctx, network, s.address())
}
