// Package ssh logs in to other hosts by the user's own SSH configuration, keys and
// known hosts, and runs commands there. It reads no environment: what it needs of
// it is in Config.
package ssh

import (
	"context"
	"errors"
	"fmt"
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
	"gorun/internal/shellwords"
	"gorun/launcher/internal/reach/remote"
)

// DefaultTimeout is how long reaching a host may take where Config has no limit.
const DefaultTimeout = time.Minute

// Config says how hosts are reached.
type Config struct {
	// ConfigFile stands for the user's and the system's configuration, as -F does
	// for ssh; "" reads those two.
	ConfigFile string
	// AcceptNew adds keys of unknown hosts to the first file of known hosts. A
	// changed key is refused all the same.
	AcceptNew bool
	// Prompt asks for a secret on the terminal; nil where there is none. It is called
	// once at a time, and once per key whatever the number of hosts.
	Prompt func(prompt string) (secret string, err error)
	// Timeout is how long Dial may take, without the time that Ask takes; 0 means
	// DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout is how long a host may take to accept a TCP connection where its
	// configuration does not say; 0: as long as Timeout.
	ConnectTimeout time.Duration
	// Notify gets remarks, each once; nil drops them.
	Notify func(remark string)
	// Environ is the environment of the user, as os.Environ gives it: HOME, USER,
	// PATH, SSH_AUTH_SOCK and what the configuration names as ${VARIABLE}. Programs
	// that are started (ssh -G, proxy commands) get all of it.
	Environ []string
}

// Client logs in to hosts. It holds what they have in common: keys, the connection
// to the agent, known hosts, and jump hosts. Its methods may be called on several
// goroutines.
type Client struct {
	config  Config
	environ map[string]string
	keys    keyring
	known   knownFiles
	jumps   jumps
	reading chan struct{} // bounds the runs of ssh -G at once

	mu   sync.Mutex
	told map[string]bool
}

// NewClient makes a Client. Close it after its hosts.
func NewClient(config Config) *Client {
	c := &Client{
		config: config, environ: map[string]string{}, told: map[string]bool{},
		reading: make(chan struct{}, max(2, runtime.NumCPU())),
	}
	for _, pair := range config.Environ {
		name, value, _ := strings.Cut(pair, "=")
		c.environ[name] = value
	}
	if c.environ["HOME"] == "" { // never the current folder: it may be anybody's
		c.environ["HOME"] = "/"
		if me, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(me.HomeDir) {
			c.environ["HOME"] = me.HomeDir
		}
	}
	c.keys.ask, c.jumps.open = config.Prompt, map[string]*jump{}
	return c
}

// Close closes the connections to agents and jump hosts.
func (c *Client) Close() {
	c.keys.close()
	c.jumps.close()
}

// tell passes a remark on, once.
func (c *Client) tell(remark string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.Notify != nil && !c.told[remark] {
		c.told[remark] = true
		c.config.Notify(remark)
	}
}

// Dial logs in. ctx ends the attempt at any step; it does not end the Host. An error
// is a *remote.Error.
func (c *Client) Dial(ctx context.Context, target remote.Target) (remote.Host, error) {
	began, limit := time.Now(), c.config.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	clock := newClock(ctx, limit)
	defer clock.stop()
	login, err := c.reach(clock, target)
	if err != nil {
		return nil, c.asError(err, target.Name, time.Since(began))
	}
	return &host{name: target.Name, login: login}, nil
}

// asError completes an error with the host and the time.
func (c *Client) asError(err error, name string, after time.Duration) error {
	var failure *remote.Error
	if !errors.As(err, &failure) {
		failure = &remote.Error{Step: remote.StepConnect, Text: printable.Text(err.Error()), Err: err}
	}
	failure.Host, failure.After = printable.Text(name), after
	return failure
}

// reach reads the configuration and logs in.
func (c *Client) reach(clock *clock, target remote.Target) (*login, error) {
	remote.ReportStep(clock.ctx, remote.StepConfig)
	s, err := c.settings(clock.ctx, target)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "%v", err)
	}
	l, err := c.login(clock, s, jumpsOf(s))
	var failure *remote.Error
	if errors.As(err, &failure) {
		failure.Target = s.String()
	}
	return l, err
}

// login is one connection that is logged in, and what it stands upon.
type login struct {
	client *ssh.Client
	under  io.Closer // the proxy command, nil for none
}

// Close closes the connection and what is below it.
func (l *login) Close() error {
	err := l.client.Close()
	if l.under != nil {
		_ = l.under.Close()
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A busy sshd drops connections at random before it has said who it is (its
// MaxStartups): such a host is tried again so many times, the first pause being so long.
const (
	dropRetries = 6
	firstPause  = 100 * time.Millisecond
)

// login connects and logs in, again where the host drops connections early.
func (c *Client) login(clock *clock, s *settings, chain []remote.Target) (*login, error) {
	pause := firstPause
	for try := 0; ; try++ {
		l, err := c.try(clock, s, chain)
		dropped, is := err.(*droppedError) // itself: a jump host's is within another error
		if !is {
			return l, err
		}
		if try == dropRetries {
			return nil, fail(remote.StepKeys, dropped.cause, "%s closed the connection %d times before it said who it is", s,
				try+1).
				hint("its MaxStartups or a firewall may bound connections; ssh -v %s shows more", s.arguments())
		}
		if err := clock.pause(jitter(pause)); err != nil {
			return nil, timedOut(remote.StepKeys, s, clock)
		}
		pause *= 2
	}
}

// try connects and logs in once.
func (c *Client) try(clock *clock, s *settings, chain []remote.Target) (*login, error) {
	short := clock.within(s.connectTimeout)
	defer short.stop()
	remote.ReportStep(short.ctx, remote.StepConnect)
	conn, under, err := c.connect(short, s, chain)
	if err != nil {
		return nil, err
	}
	client, err := c.handshake(short, s, conn)
	if err != nil {
		err = withProxyWords(err, under)
		_ = conn.Close()
		if under != nil {
			_ = under.Close()
		}
		return nil, err
	}
	return &login{client, under}, nil
}

// failing is a *remote.Error under construction: host and time come with asError.
type failing struct{ problem *remote.Error }

// fail is an error of a step; what others said in it loses its control bytes.
func fail(step remote.Step, err error, format string, values ...any) *failing {
	return &failing{&remote.Error{Step: step, Text: printable.Text(fmt.Sprintf(format, values...)), Err: err}}
}

func (f *failing) Error() string { return f.problem.Error() }

// Unwrap lets errors.As find the *remote.Error.
func (f *failing) Unwrap() error { return f.problem }

// hint adds a way out.
func (f *failing) hint(format string, values ...any) error {
	f.problem.Hint = printable.Text(fmt.Sprintf(format, values...))
	return f
}

// String is user@host:port, as messages show it.
func (s *settings) String() string {
	text := s.user + "@" + net.JoinHostPort(s.hostName, strconv.Itoa(s.port))
	if s.dialed != "" {
		text += " (" + s.dialed + ")"
	}
	return text
}

// arguments are those with which ssh reaches the same host.
func (s *settings) arguments() string {
	var words []string
	if s.configFile != "" {
		words = append(words, "-F", shellwords.Quote(s.configFile))
	}
	if s.target.User != "" {
		words = append(words, "-l", shellwords.Quote(s.target.User))
	}
	if s.target.Port != 0 {
		words = append(words, "-p", strconv.Itoa(s.target.Port))
	}
	return strings.Join(append(words, shellwords.Quote(s.target.Name)), " ")
}
