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

// Membership is a node's own side of a meeting, once all have come.
type Membership struct {
	// Conn is the stream to node 0: TLS where there is a token.
	Conn net.Conn
	// NodeRank is this node's number.
	NodeRank int
	// Host is node 0's own name, which may hold control bytes.
	Host string
	// IsInsecure says that nothing proves who node 0 is: it and this node have no secret, and it
	// may be on another host or another user's.
	IsInsecure bool
}

// RefusedError is that node 0 does not take this node: trying again is of no use.
type RefusedError struct {
	// Endpoint is where node 0 listens, Host its name where it said that.
	Endpoint, Host string
	// Why is printable.
	Why string

	stranger bool // nobody knows whether this is the job's node 0: another may be at another port
	started  bool // the job runs already
}

func (e *RefusedError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("node 0 at %s refused this node: %s", e.Endpoint, e.Why)
	}
	return fmt.Sprintf("node 0 at %s (%s) refused this node: %s", e.Endpoint, e.Host, e.Why)
}

// How long a node waits between attempts, the first time and at most.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// dialWithin bounds one attempt to connect, and then one to prove the token: packets
// may vanish.
const dialWithin = 10 * time.Second

// startedWithin is how long a node believes that a job which has started already may be
// the last one of the same script, of which node 0 is about to end.
const startedWithin = 10 * time.Second

// nameWithin is how long a name of a host that exists may be unknown: a resolver may have
// to hear of it.
const nameWithin = 30 * time.Second

// dialer is what a node needs of the world.
type dialer struct {
	cfg  Config
	tls  *tls.Config
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	told  sync.Once // that node 0 is waited for
	waits sync.Once // that other nodes are waited for
}

// Dial comes to node 0, which may start later, and returns when all nodes have come.
// Names are looked up anew each time. It fails when ctx ends, after cfg.Timeout, or
// at once with a *RefusedError.
func Dial(ctx context.Context, cfg Config) (*Membership, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkSecret(); err != nil {
		return nil, err
	}
	cfg.warn()
	d := &dialer{cfg: cfg, dial: (&net.Dialer{Timeout: dialWithin}).DialContext}
	if cfg.Secret != nil {
		if d.tls, err = tlsFor(cfg.Secret, forNode, forHead); err != nil {
			return nil, err
		}
	}
	return d.come(ctx)
}

// come tries all ports until it is taken at one, refused, or too late.
func (d *dialer) come(parent context.Context) (*Membership, error) {
	ctx, cancel := context.WithTimeout(parent, d.cfg.Timeout)
	defer cancel()
	ports := d.cfg.ports()
	endings := make(chan ending, len(ports))
	failed := make(chan struct{}) // node 0 is not at the first port, or not yet
	failure := sync.OnceFunc(func() { close(failed) })
	go func() { endings <- d.knock(ctx, ports[0], failure) }()
	for _, port := range ports[1:] {
		go func() {
			pause(otherPortsAfter, ctx.Done(), failed)
			e := d.knock(ctx, port, func() {})
			if !isRefused(e.last) {
				e.last = nil // that nobody is there says something of the first port alone
			}
			endings <- e
		}()
	}
	return d.settle(parent, cancel, endings, len(ports))
}

// otherPortsAfter is how long a node looks at the first port alone: who is there may be
// no gorun, and say nothing.
const otherPortsAfter = time.Second

// ending is what became of one port.
type ending struct {
	joined *Membership
	final  error // a *RefusedError of this job's node 0
	last   error // what was wrong when time was over
}

// settle waits for the port that decides, and then until all others are left alone.
func (d *dialer) settle(parent context.Context, cancel context.CancelFunc, endings <-chan ending, n int) (*Membership,
	error,
) {
	var total ending
	for range n {
		e := <-endings
		switch {
		case e.joined != nil && total.joined != nil:
			e.joined.Conn.Close()
		case e.joined != nil || e.final != nil:
			total.joined, total.final = cmp.Or(total.joined, e.joined), cmp.Or(total.final, e.final)
			cancel()
		}
		if isRefused(e.last) || total.last == nil {
			total.last = e.last
		}
	}
	switch {
	case total.joined != nil:
		return total.joined, nil
	case total.final != nil:
		return nil, total.final
	}
	return nil, d.late(parent, total.last)
}

func isRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// knock tries one port, and calls failed whenever that was in vain.
func (d *dialer) knock(ctx context.Context, port int, failed func()) (e ending) {
	begun, wait, unknown, started := time.Now(), firstPause, stopwatch{}, stopwatch{}
	for ctx.Err() == nil || e.last == nil {
		joined, err := d.try(ctx, port)
		if err == nil {
			return ending{joined: joined}
		}
		if final := d.final(err, &unknown, &started); final != nil {
			return ending{final: final}
		}
		if ctx.Err() == nil || e.last == nil || errors.Is(err, errWaits) {
			e.last = err // what an attempt fails with because time is over says nothing
		}
		failed()
		tells := port == d.cfg.Port || isRefused(err) // that nobody is at another port says nothing
		if tells && time.Since(begun) >= remarkAfter/2 && ctx.Err() == nil {
			d.told.Do(func() {
				d.cfg.Notify(fmt.Sprintf("waiting for node 0 at %s, which may start later (%v); giving up after %v",
					d.cfg.endpoint(), reason(err), d.cfg.Timeout))
			})
		}
		if !pause(wait/2+rand.N(wait/2), ctx.Done(), d.cfg.NoRetry) { // #nosec G404 -- a pause is no secret
			return e
		}
		wait = min(2*wait, lastPause)
	}
	return e
}

// stopwatch records when a condition began.
type stopwatch struct{ begun time.Time }

// lasts reports whether it holds for that long by now.
func (s *stopwatch) lasts(limit time.Duration) bool {
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	return time.Since(s.begun) >= limit
}

// finalError is that trying again is of no use, whatever went wrong.
type finalError struct{ error }

// final is the error of an attempt if trying again is of no use. With one port every
// refusal is, but that of a job about to end; with several one of this job's node 0:
// others are at their own.
func (d *dialer) final(err error, unknown, started *stopwatch) error {
	var (
		refused *RefusedError
		final   finalError
	)
	if isUnknown(err) {
		if d.cfg.HostsExist && unknown.lasts(nameWithin) {
			return fmt.Errorf(
				"no resolver of this host has known node 0's name %s for %v: %s; name an address of node 0 by --master-addr ADDR",
				printable.Text(d.cfg.Addr), nameWithin, reason(err))
		}
		return nil
	}
	*unknown = stopwatch{}
	switch {
	case errors.As(err, &final):
	case !errors.As(err, &refused), refused.stranger && len(d.cfg.Ports) > 0:
		return nil
	case refused.started && !started.lasts(d.cfg.lastJob):
		return nil
	}
	return err
}

// isUnknown reports whether a resolver said that there is no such name.
func isUnknown(err error) bool {
	var unknown *net.DNSError
	return errors.As(err, &unknown) && unknown.IsNotFound
}

// late is the error of a node that could not join.
func (d *dialer) late(parent context.Context, last error) error {
	if d.cfg.Addrs != nil {
		return last
	}
	if err := context.Cause(parent); err != nil {
		return fmt.Errorf("stopped waiting for node 0 at %s (%v): %w", d.cfg.endpoint(), reason(last), err)
	}
	return fmt.Errorf("node 0 at %s did not take this node within %v: %s", d.cfg.endpoint(), d.cfg.Timeout, reason(last))
}

// reason is an error in words for the user.
func reason(err error) string {
	var text string
	var refused *RefusedError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "connection refused"
	case errors.As(err, &refused) && refused.Endpoint == "":
		text = refused.Why
	case remote.IsEnd(err):
		text = "it closes connections: does gorun listen there?"
	default:
		text = err.Error()
	}
	return printable.Text(printable.Short(text))
}

// errWaits is that node 0 knows this node and waits for others.
var errWaits = errors.New("it waits for other nodes")

// try is one attempt.
func (d *dialer) try(ctx context.Context, port int) (*Membership, error) {
	keys, err := d.keys(ctx, port)
	if err != nil {
		return nil, err
	}
	var c net.Conn
	if d.cfg.Addrs == nil {
		c, err = d.connect(ctx, d.cfg.at(port), keys, port)
	} else {
		c, err = d.race(ctx, keys, port)
	}
	if err != nil {
		return nil, err
	}
	joined, err := d.present(ctx, c, port)
	if err == nil {
		return joined, nil
	}
	_ = c.Close()
	if d.cfg.Addrs != nil {
		err = finalError{headLost(err)}
	}
	return nil, err
}

// connect makes a connection whose other end has proved the token, where there is one.
func (d *dialer) connect(ctx context.Context, address string, keys *tls.Config, port int) (net.Conn, error) {
	raw, err := d.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(dialWithin))
	c, err := d.secure(ctx, raw, keys, port)
	if err != nil {
		raw.Close()
	}
	return c, err
}

// nextAddr is how long after one address the next one is dialled.
const nextAddr = 20 * time.Millisecond

// race dials all addresses, in quick turn. The first that proves the token wins, the others are closed.
func (d *dialer) race(parent context.Context, keys *tls.Config, port int) (net.Conn, error) {
	ctx, cancel := context.WithCancel(parent)
	type dialed struct {
		conn net.Conn
		text string
	}
	tried := make(chan dialed, len(d.cfg.Addrs))
	for i, addr := range d.cfg.Addrs {
		go func() {
			at := netip.AddrPortFrom(addr, uint16(port)).String()
			pause(time.Duration(i)*nextAddr, ctx.Done(), nil)
			conn, err := d.connect(ctx, at, keys, port)
			if err != nil {
				tried <- dialed{text: at + ": " + reason(err)}
				return
			}
			tried <- dialed{conn: conn}
		}()
	}
	defer cancel()
	var problems []string
	for n := range d.cfg.Addrs {
		one := <-tried
		if one.conn == nil {
			problems = append(problems, one.text)
			continue
		}
		go func() {
			for range len(d.cfg.Addrs) - n - 1 {
				if other := <-tried; other.conn != nil {
					other.conn.Close()
				}
			}
		}()
		return one.conn, nil
	}
	return nil, errors.New("no way to the head: " + strings.Join(problems, "; "))
}

// headLost says in words why an agent that has come to its head cannot stay.
func headLost(err error) error {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return errors.New("the head refused this agent: " + refused.Why)
	case errors.Is(err, errWaits):
		return errors.New("not all agents came in time")
	}
	return fmt.Errorf("the head is gone: %w", err)
}

// present says who this node is, and hears whether it is taken.
func (d *dialer) present(ctx context.Context, c net.Conn, port int) (*Membership, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err := writeMessage(c, &d.cfg.Self)
	var joined *Membership
	if err == nil {
		_ = c.SetDeadline(time.Time{})
		joined, err = d.hear(c, port)
	}
	switch over := !stop(); {
	case over && err == nil:
		err = context.Cause(ctx)
	case over && remote.IsEnd(err): // node 0 may have closed its end first
		err = errWaits
	}
	return joined, err
}

// secure proves the token, where there is one, and has node 0 prove it.
func (d *dialer) secure(ctx context.Context, raw net.Conn, keys *tls.Config, port int) (net.Conn, error) {
	if keys == nil {
		return raw, nil
	}
	c := tls.Client(raw, keys)
	err := c.HandshakeContext(ctx)
	switch {
	case err == nil:
		return c, nil
	case tokenTrouble(err):
		return nil, d.stranger(port, "its token is not that of this node (--token-file, GORUN_TOKEN)")
	case answeredPlain(err):
		return nil, d.stranger(port, "node 0 has no token: give it the one that this node has (--token-file, GORUN_TOKEN), "+
			"or start this one without")
	}
	return nil, err
}

// hear waits for node 0's answer, which comes when all nodes have come.
func (d *dialer) hear(c net.Conn, port int) (*Membership, error) {
	other := make(chan error, 1)
	remark := time.AfterFunc(remarkAfter, func() {
		if err := d.checkOwn(c); errors.As(err, new(*otherUserError)) { // whoever says nothing is no node 0 either
			other <- err
			_ = c.Close()
			return
		}
		d.waits.Do(d.tellWaits)
	})
	defer remark.Stop()
	w, err := d.readWelcome(c, port)
	select {
	case err := <-other:
		return nil, d.notOwn(port, err)
	default:
	}
	switch {
	case errors.Is(err, net.ErrClosed):
		return nil, errWaits // it is our time that is over
	case err != nil:
		return nil, err
	case w.NodeRank < 1 || w.NodeRank >= d.cfg.Self.NumNodes || d.cfg.Self.NodeRank >= 0 &&
		w.NodeRank != d.cfg.Self.NodeRank:
		return nil, d.refused(port, w.Host, fmt.Sprintf("it calls this node %d", w.NodeRank))
	}
	if err := d.checkOwn(c); err != nil { // now that it has answered: before, nobody may have accepted the connection
		return nil, d.notOwn(port, err)
	}
	return &Membership{Conn: c, NodeRank: w.NodeRank, Host: w.Host, IsInsecure: d.cfg.isWeak()}, nil
}

// checkOwn returns an error where node 0 has to be this user's on this host, and is not.
func (d *dialer) checkOwn(c net.Conn) error {
	if !d.cfg.isOwn() {
		return nil
	}
	return checkOwn(c)
}

func (d *dialer) notOwn(port int, err error) error {
	return d.stranger(port, "without a token node 0 has to be of this user and on this host, and "+err.Error()+
		": give all nodes the same --token-file FILE")
}

// tellWaits: node 0 says for whom it waits, once, on its own host.
func (d *dialer) tellWaits() {
	if len(d.cfg.Ports) > 0 { // who has taken it may be no gorun
		d.cfg.Notify(fmt.Sprintf("waiting for node 0 at %s, or for other nodes, which it names there; giving up after %v",
			d.cfg.endpoint(), d.cfg.Timeout))
		return
	}
	d.cfg.Notify(fmt.Sprintf("node 0 at %s has taken this node and waits for other nodes, which it names there; "+
		"giving up after %v", d.cfg.endpoint(), d.cfg.Timeout))
}

// stranger is a refusal by whoever is at a port before he says which job is his.
func (d *dialer) stranger(port int, why string) error {
	refused := d.refused(port, "", why)
	refused.stranger = true
	return refused
}

func (d *dialer) refused(port int, host, why string) *RefusedError {
	endpoint := d.cfg.at(port)
	if d.cfg.Addrs != nil {
		endpoint = "" // it is said beside
	}
	return &RefusedError{
		Endpoint: endpoint, Host: printable.Text(printable.Short(host)),
		Why: printable.Text(printable.Short(why)),
	}
}

// Connect is Listen where this node is node 0, and Dial elsewhere. A node without a rank is
// node 0 if it is on the endpoint's host and nobody listens there yet: of several nodes
// on that host, the first. It looks at Port alone, since at several ports each of those
// could be node 0.
func Connect(ctx context.Context, cfg Config) (*Head, *Membership, error) {
	if cfg.Self.NodeRank < 0 {
		cfg.Ports = nil
	}
	if err := cfg.checkSecret(); err != nil { // before a name server is waited for
		return nil, nil, err
	}
	listen := cfg.Self.NodeRank == 0
	if cfg.Self.NodeRank < 0 && !cfg.NeverNode0 {
		here, err := IsEndpointHere(ctx, cfg.Addr)
		if err != nil && cfg.Notify != nil {
			cfg.Notify(printable.Text(err.Error()))
		}
		listen = here
	}
	if listen {
		h, err := Listen(ctx, cfg)
		var taken *PortTakenError
		if err == nil || cfg.Self.NodeRank == 0 || !errors.As(err, &taken) {
			return h, nil, err
		}
	}
	j, err := Dial(ctx, cfg)
	return nil, j, err
}
