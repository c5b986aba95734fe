package join

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// Membership is the result of Dial: this node's place in the job, once all nodes have joined.
type Membership struct {
	// Conn is the stream to node 0: TLS where there is a token.
	Conn net.Conn
	// Welcome is node 0's answer. Its texts may hold control bytes.
	Welcome
}

// RefusedError reports that node 0 does not accept this node. Trying again would not help.
type RefusedError struct {
	// Endpoint is node 0's address, Host its name if it sent one.
	Endpoint, Host string
	// Why is printable.
	Why string

	unverified bool // the peer may not be node 0 of this job, which may be at another port
	started    bool // the job runs already
}

func (e *RefusedError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("node 0 at %s refused this node: %s", e.Endpoint, e.Why)
	}
	return fmt.Sprintf("node 0 at %s (%s) refused this node: %s", e.Endpoint, e.Host, e.Why)
}

// The pause between attempts grows from firstPause to maxPause.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

const (
	// dialTimeout limits one attempt to connect, and then to prove the token: packets may vanish.
	dialTimeout = 10 * time.Second
	// lastJobTimeout is how long a started job at the port is taken for the previous one of the same script, about to end.
	lastJobTimeout = 10 * time.Second
	// nameTimeout is how long a resolver may not know the name of an existing host.
	nameTimeout = 30 * time.Second
)

const (
	otherToken = "its token differs from this node's (--token-file, GORUN_TOKEN)" // #nosec G101 -- a message
	noToken    = "node 0 has no token: give it this node's token (--token-file, GORUN_TOKEN), or start this node " +
		"without one"
)

// dialer joins one node to node 0.
type dialer struct {
	cfg  Config
	tls  *tls.Config
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	waitsForHead  sync.Once // the notice
	waitsForNodes sync.Once
	limit         *time.Timer // ends join after cfg.limit
}

// Dial connects to node 0, which may start later, and returns when all nodes have joined. It looks names up anew for
// each attempt. It fails when ctx ends, after cfg.limit, or at once with a *RefusedError.
func Dial(ctx context.Context, cfg Config) (*Membership, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkSecret(); err != nil {
		return nil, err
	}
	cfg.warn()
	d := &dialer{cfg: cfg, dial: (&net.Dialer{Timeout: dialTimeout}).DialContext}
	if cfg.Secret != nil {
		if d.tls, err = tlsConfig(cfg.Secret, roleNode, roleHead); err != nil {
			return nil, err
		}
	}
	return d.join(ctx)
}

// otherPortsDelay is how long a node tries the first port alone: the process there may be another program that stays
// silent.
const otherPortsDelay = time.Second

// outcome is the result of one port.
type outcome struct {
	membership *Membership
	fatal      error // a *RefusedError of this job's node 0
	last       error // the last error when time was up, of a port that is expected to answer
}

// join tries all ports until one accepts this node, this job's node 0 refuses it, or time is up.
func (d *dialer) join(parent context.Context) (*Membership, error) {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	d.limit = time.AfterFunc(d.cfg.limit(), func() { end(context.DeadlineExceeded) })
	defer d.limit.Stop()
	ports := d.cfg.ports()
	outcomes := make(chan outcome, len(ports))
	failed := make(chan struct{}) // node 0 is not at the first port, or not yet
	fail := sync.OnceFunc(func() { close(failed) })
	for i, port := range ports {
		go func() {
			if i > 0 {
				pause(otherPortsDelay, ctx.Done(), failed)
			}
			outcomes <- d.tryPort(ctx, port, fail)
		}()
	}
	var total outcome
	for range ports {
		o := <-outcomes
		switch {
		case o.membership != nil && total.membership != nil:
			o.membership.Conn.Close()
		case o.membership != nil || o.fatal != nil:
			total.membership, total.fatal = cmp.Or(total.membership, o.membership), cmp.Or(total.fatal, o.fatal)
			end(nil)
		}
		if isRefused(o.last) || total.last == nil {
			total.last = o.last
		}
	}
	switch {
	case total.membership != nil:
		return total.membership, nil
	case total.fatal != nil:
		return nil, total.fatal
	}
	return nil, d.timeoutError(parent, total.last)
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

// tryPort tries one port again and again, and calls failed after each attempt.
func (d *dialer) tryPort(ctx context.Context, port int, failed func()) (o outcome) {
	began, wait := time.Now(), firstPause
	var unknown, started stopwatch
	for {
		membership, err := d.attempt(ctx, port)
		if err == nil {
			return outcome{membership: membership}
		}
		refused, isRefusal := errors.AsType[*RefusedError](err)
		if isRefusal && d.cfg.Addrs == nil { // else connectAny names the address
			refused.Endpoint = d.cfg.addrAt(port)
		}
		if fatal := d.fatal(err, &unknown, &started); fatal != nil {
			return outcome{fatal: fatal}
		}
		isTelling := port == d.cfg.Port || isRefusal // only the first port is expected to answer
		if isTelling && (ctx.Err() == nil || o.last == nil || errors.Is(err, errWaits)) {
			o.last = err // later errors only say that time is up
		}
		failed()
		if isTelling && time.Since(began) >= noticeDelay/2 && ctx.Err() == nil {
			d.waitsForHead.Do(func() {
				limit := d.cfg.limit()
				if !unknown.began.IsZero() && d.cfg.HostsExist {
					limit = min(limit, nameTimeout)
				}
				d.cfg.Notify(fmt.Sprintf("waiting for node 0 at %s, up to %v (%v)", d.cfg.endpoint(), limit, describe(err)))
			})
		}
		if !pause(wait/2+rand.N(wait/2), ctx.Done(), d.cfg.NoRetry) { // #nosec G404 -- a pause is no secret
			return o
		}
		wait = min(2*wait, maxPause)
	}
}

// stopwatch records when a condition began.
type stopwatch struct{ began time.Time }

// exceeds reports whether the condition has held for limit. The first call starts the stopwatch.
func (s *stopwatch) exceeds(limit time.Duration) bool {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	return time.Since(s.began) >= limit
}

// fatalError marks an error after which no attempt follows.
type fatalError struct{ error }

// fatal returns the error of an attempt if no other should follow. With one port, each refusal is fatal, except that of
// a job about to end; with several, only those of this job's node 0.
func (d *dialer) fatal(err error, unknown, started *stopwatch) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		if d.cfg.HostsExist && unknown.exceeds(nameTimeout) {
			return fmt.Errorf("cannot resolve node 0's name %s for %v; name its address with %s",
				printable.Text(d.cfg.Addr), nameTimeout, cmp.Or(d.cfg.AddrOption, "--master-addr ADDR"))
		}
		return nil
	}
	*unknown = stopwatch{}
	if _, ok := errors.AsType[fatalError](err); ok {
		return err
	}
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.unverified && len(d.cfg.Ports) > 0 || refused.started && !started.exceeds(d.cfg.lastJob) {
		return nil
	}
	return err
}

// timeoutError is the error of a node that could not join in time.
func (d *dialer) timeoutError(parent context.Context, last error) error {
	if d.cfg.Addrs != nil {
		return last
	}
	if err := context.Cause(parent); err != nil {
		return fmt.Errorf("stopped waiting for node 0 at %s (%v): %w", d.cfg.endpoint(), describe(last), err)
	}
	return fmt.Errorf("node 0 at %s did not accept this node within %v: %s", d.cfg.endpoint(), d.cfg.limit(),
		describe(last))
}

// describe returns an error in words for the user.
func describe(err error) string {
	text := ""
	refused, isRefusal := errors.AsType[*RefusedError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "connection refused"
	case isRefusal && refused.Endpoint == "":
		text = refused.Why
	case remote.IsEnd(err):
		text = "it closes connections: another program may listen there"
	default:
		text = printable.Error(err)
	}
	return printable.Text(printable.Short(text))
}

// errWaits reports that node 0 has accepted this node and waits for others.
var errWaits = errors.New("it is waiting for other nodes")

// attempt tries one port once.
func (d *dialer) attempt(ctx context.Context, port int) (*Membership, error) {
	config, err := d.tlsConfig(ctx, port)
	if err != nil {
		return nil, err
	}
	var c net.Conn
	if d.cfg.Addrs == nil {
		c, err = d.connect(ctx, d.cfg.addrAt(port), config)
	} else {
		c, err = d.connectAny(ctx, config, port)
	}
	if err != nil {
		return nil, err
	}
	membership, err := d.handshake(ctx, c)
	if err == nil {
		return membership, nil
	}
	_ = c.Close()
	if d.cfg.Addrs != nil {
		err = fatalError{agentError(err)}
	}
	return nil, err
}

// connect returns a connection whose peer has proved the token, if there is one.
func (d *dialer) connect(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	raw, err := d.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(dialTimeout))
	c, err := secure(ctx, raw, config)
	if err != nil {
		raw.Close()
	}
	return c, err
}

// secure authenticates both ends by the token, if there is one.
func secure(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return raw, nil
	}
	c := tls.Client(raw, config)
	err := c.HandshakeContext(ctx)
	switch {
	case err == nil:
		return c, nil
	case isTokenMismatch(err):
		return nil, refusedByOther(otherToken)
	case isPlainAnswer(err):
		return nil, refusedByOther(noToken)
	}
	return nil, err
}

// addrInterval is the time between the dials of two addresses.
const addrInterval = 20 * time.Millisecond

// connectAny dials all addresses in quick succession. It returns the first connection whose peer proves the token and
// closes the others.
func (d *dialer) connectAny(parent context.Context, config *tls.Config, port int) (net.Conn, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(d.cfg.Addrs))
	for i, addr := range d.cfg.Addrs {
		go func() {
			address := netip.AddrPortFrom(addr, uint16(port)).String()
			pause(time.Duration(i)*addrInterval, ctx.Done(), nil)
			conn, err := d.connect(ctx, address, config)
			if err != nil {
				err = errors.New(address + ": " + describe(err))
			}
			results <- result{conn, err}
		}()
	}
	var problems []string
	for n := range d.cfg.Addrs {
		r := <-results
		if r.err != nil {
			problems = append(problems, r.err.Error())
			continue
		}
		go func() {
			for range len(d.cfg.Addrs) - n - 1 {
				if other := <-results; other.err == nil {
					other.conn.Close()
				}
			}
		}()
		return r.conn, nil
	}
	return nil, errors.New("cannot reach the launcher: " + strings.Join(problems, "; "))
}

// agentError says why an agent that had reached its head cannot stay.
func agentError(err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return errors.New("the launcher refused this agent: " + refused.Why)
	}
	if errors.Is(err, errWaits) {
		return errors.New("not all agents connected in time")
	}
	return fmt.Errorf("lost the connection to the launcher: %w", err)
}

// handshake sends the hello and waits for the welcome.
func (d *dialer) handshake(ctx context.Context, c net.Conn) (*Membership, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err := writeMessage(c, &d.cfg.Self)
	var membership *Membership
	if err == nil {
		_ = c.SetDeadline(time.Time{})
		membership, err = d.awaitWelcome(c)
	}
	switch ended := !stop(); {
	case ended && err == nil:
		err = context.Cause(ctx)
	case ended && remote.IsEnd(err): // node 0 may have closed its end first
		err = errWaits
	}
	return membership, err
}

// awaitWelcome waits for node 0's answer, which comes when all nodes have joined.
func (d *dialer) awaitWelcome(c net.Conn) (*Membership, error) {
	foreign := make(chan error, 1)
	notice := time.AfterFunc(noticeDelay, func() {
		err := d.checkOwner(c)
		if _, ok := errors.AsType[*otherUserError](err); ok { // a silent one is not node 0 either
			foreign <- err
			_ = c.Close()
			return
		}
		d.waitsForNodes.Do(d.notifyWaiting)
	})
	defer notice.Stop()
	w, err := readWelcome(c)
	if err == nil && w.Waits && d.cfg.Self.MinNodes > 0 {
		notice.Stop()
		w, err = d.awaitPlace(c)
	}
	select {
	case err := <-foreign:
		return nil, foreignError(err)
	default:
	}
	own := d.cfg.Self.NodeRank
	switch {
	case errors.Is(err, net.ErrClosed):
		return nil, errWaits // this node's time is up
	case err != nil:
		return nil, err
	case w.Ended && d.cfg.Self.MinNodes > 0:
		return &Membership{c, *w}, nil
	case w.NodeRank < 1 || w.NodeRank >= d.cfg.Self.NumNodes || own >= 0 && w.NodeRank != own:
		return nil, refused(w.Host, fmt.Sprintf("it assigns the invalid node rank %d to this node", w.NodeRank))
	}
	if err := d.checkOwner(c); err != nil { // not before the answer: until then the connection may not be accepted
		return nil, foreignError(err)
	}
	return &Membership{c, *w}, nil
}

// awaitPlace waits until the job, which runs, has a place for this node, or ends.
func (d *dialer) awaitPlace(c net.Conn) (*Welcome, error) {
	if err := d.checkOwner(c); err != nil {
		return nil, foreignError(err)
	}
	d.limit.Stop()
	d.cfg.Notify(fmt.Sprintf("the job at %s runs; this node waits as a spare until it restarts", d.cfg.endpoint()))
	w, err := readWelcome(c)
	d.limit.Reset(d.cfg.limit()) // if node 0 is lost, another one may come
	if remote.IsEnd(err) {
		err = errors.New("it ended while this node waited, or its host went down")
	}
	return w, err
}

// checkOwner returns an error if node 0 must belong to this user on this host, and does not.
func (d *dialer) checkOwner(c net.Conn) error {
	if !d.cfg.isOneUser() {
		return nil
	}
	return checkOwner(c)
}

func foreignError(err error) error {
	return refusedByOther("without a token, node 0 must run on this host as the same user: " + err.Error() +
		": give all nodes the same --token-file FILE")
}

// notifyWaiting tells the user that this node waits. Node 0 lists the missing nodes on its own host.
func (d *dialer) notifyWaiting() {
	text := "node 0 at %s has accepted this node and waits for the nodes that its own output lists; giving up after %v"
	if len(d.cfg.Ports) > 0 { // the process at the port may be another program
		text = "waiting for node 0 at %s, or for the nodes that its output lists; giving up after %v"
	}
	d.cfg.Notify(fmt.Sprintf(text, d.cfg.endpoint(), d.cfg.limit()))
}

// refusedByOther is a refusal by a peer that may not be node 0 of this job.
func refusedByOther(reason string) error {
	e := refused("", reason)
	e.unverified = true
	return e
}

// refused returns a refusal, of which tryPort adds the endpoint.
func refused(host, reason string) *RefusedError {
	return &RefusedError{Host: printable.Text(printable.Short(host)), Why: printable.Text(printable.Short(reason))}
}

// Connect is Listen if this node is node 0, and Dial otherwise. A node without a rank is node 0 if it is on the
// endpoint's host and no other process listens there: the first of several nodes on that host. It uses Port alone, as
// several such nodes could otherwise each be node 0 at a port of their own.
func Connect(ctx context.Context, cfg Config) (*Head, *Membership, error) {
	if cfg.Self.NodeRank < 0 {
		cfg.Ports = nil
	}
	if err := cfg.checkSecret(); err != nil { // before waiting for a name server
		return nil, nil, err
	}
	isHead := cfg.Self.NodeRank == 0
	if cfg.Self.NodeRank < 0 && !cfg.NeverNode0 {
		here, err := IsEndpointHere(ctx, cfg.Addr)
		if err != nil && cfg.Notify != nil {
			cfg.Notify(printable.Text(err.Error()))
		}
		isHead = here
	}
	if isHead {
		h, err := Listen(ctx, cfg)
		if _, taken := errors.AsType[*PortTakenError](err); !taken || cfg.Self.NodeRank == 0 {
			return h, nil, err
		}
	}
	m, err := Dial(ctx, cfg)
	return nil, m, err
}
