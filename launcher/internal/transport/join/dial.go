package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"gorun/internal/printable"
)

// Joined is a node's own side of a meeting, once all have come.
type Joined struct {
	// Conn is the stream to node 0: TLS where there is a token.
	Conn net.Conn
	// NodeRank is this node's number.
	NodeRank int
	// Host is node 0's own name, which may hold control bytes.
	Host string
}

// RefusedError is that node 0 does not take this node: trying again is of no use.
type RefusedError struct {
	// Endpoint is where node 0 listens, Host its name where it said that.
	Endpoint, Host string
	// Why is printable.
	Why string

	elsewhere bool // another job may be there, and this one at another port
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

// dialer is what a node needs of the world.
type dialer struct {
	cfg  Config
	tls  *tls.Config
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	told bool // that node 0 is waited for

	waits sync.Once // that other nodes are waited for is told
}

// Dial comes to node 0, which may start later, and returns when all nodes have come.
// Names are looked up anew each time. It fails when ctx ends, after cfg.Timeout, or
// at once with a *RefusedError.
func Dial(ctx context.Context, cfg Config) (*Joined, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if cfg.Secret != nil {
		if secure, err = tlsFor(cfg.Secret, forNode, forHead); err != nil {
			return nil, err
		}
	}
	ports := append([]int{cfg.Port}, cfg.Ports...)
	dialers := make([]*dialer, len(ports))
	for i, port := range ports {
		d := &dialer{cfg: cfg, tls: secure, dial: (&net.Dialer{Timeout: dialWithin}).DialContext, told: i > 0}
		d.cfg.Port = port
		dialers[i] = d
	}
	return comeToAny(ctx, dialers)
}

// comeToAny has all try at once: who listens at a port that is another's may be silent for
// ever. The error is that of the node 0 that refused this node, else of the first port.
func comeToAny(parent context.Context, dialers []*dialer) (joined *Joined, err error) {
	if len(dialers) == 1 {
		return dialers[0].come(parent)
	}
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	came, errs := make([]*Joined, len(dialers)), make([]error, len(dialers))
	ended := make(chan int, len(dialers))
	for i, d := range dialers {
		go func() {
			came[i], errs[i] = d.come(ctx)
			ended <- i
		}()
	}
	for range dialers {
		i := <-ended
		var refused *RefusedError
		switch {
		case came[i] != nil && joined == nil:
			joined = came[i]
		case came[i] != nil: // two node 0 of one job, one of which will wait in vain
			came[i].Conn.Close()
		case errors.As(errs[i], &refused) && err == nil:
			err = refused
		}
		if joined != nil || err != nil {
			cancel()
		}
	}
	switch {
	case joined != nil:
		return joined, nil
	case err == nil:
		err = errs[0]
	}
	return nil, err
}

// come tries until it is taken, refused, or too late.
func (d *dialer) come(parent context.Context) (*Joined, error) {
	ctx, cancel := context.WithTimeout(parent, d.cfg.Timeout)
	defer cancel()
	begun, wait := time.Now(), firstPause
	for last := error(nil); ; {
		joined, err := d.try(ctx)
		if err == nil {
			return joined, nil
		}
		var refused *RefusedError
		if errors.As(err, &refused) && !(refused.elsewhere && len(d.cfg.Ports) > 0) {
			return nil, err
		}
		if ctx.Err() == nil || last == nil || errors.Is(err, errWaits) {
			last = err // what an attempt fails with because time is over says nothing
		}
		if !d.told && time.Since(begun) >= remarkAfter/2 {
			d.told = true
			d.cfg.Tell(fmt.Sprintf("waiting for node 0 at %s, which may start later (%v); giving up after %v", d.cfg.endpoint(), reason(err), d.cfg.Timeout))
		}
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			return nil, d.late(parent, last)
		}
		wait = min(2*wait, lastPause)
	}
}

// late is the error of a node that could not join.
func (d *dialer) late(parent context.Context, last error) error {
	if err := context.Cause(parent); err != nil {
		return fmt.Errorf("stopped waiting for node 0 at %s (%v): %w", d.cfg.endpoint(), reason(last), err)
	}
	return fmt.Errorf("node 0 at %s did not take this node within %v: %s", d.cfg.endpoint(), d.cfg.Timeout, reason(last))
}

// reason is an error in words for the user.
func reason(err error) string {
	var text string
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "connection refused"
	case endOfStream(err):
		text = "it closes connections: does gorun listen there?"
	default:
		text = err.Error()
	}
	return printable.Text(printable.Short(text))
}

// errWaits is that node 0 knows this node and waits for others.
var errWaits = errors.New("it waits for other nodes")

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// try is one attempt.
func (d *dialer) try(ctx context.Context) (joined *Joined, err error) {
	raw, err := d.dial(ctx, "tcp", d.cfg.endpoint())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			raw.Close()
			joined = nil
		}
	}()
	_ = raw.SetDeadline(time.Now().Add(dialWithin))
	c, err := d.secure(ctx, raw)
	if err == nil {
		err = writeMessage(c, &d.cfg.Self)
	}
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return d.hear(c)
}

// secure proves the token, where there is one, and has node 0 prove it.
func (d *dialer) secure(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if d.tls == nil {
		return raw, nil
	}
	c := tls.Client(raw, d.tls)
	err := c.HandshakeContext(ctx)
	switch {
	case err == nil:
		return c, nil
	case tokenTrouble(err):
		return nil, d.another("", "its token is not that of this node (--token-file, GORUN_TOKEN)")
	case answeredPlain(err):
		return nil, d.another("", "node 0 has no token: give it the one that this node has (--token-file, GORUN_TOKEN), or start this one without")
	}
	return nil, err
}

// hear waits for node 0's answer, which comes when all nodes have come.
func (d *dialer) hear(c net.Conn) (*Joined, error) {
	remark := time.AfterFunc(remarkAfter, func() { d.waits.Do(d.tellWaits) })
	defer remark.Stop()
	var w Welcome
	err := readMessage(c, &w)
	if errors.Is(err, net.ErrClosed) {
		return nil, errWaits // it is our time that is over
	}
	var other *versionError
	switch {
	case errors.As(err, &other):
		return nil, d.another("", err.Error())
	case tokenTrouble(err): // node 0 reads our key after its own handshake is done
		return nil, d.another("", "its token is not that of this node (--token-file, GORUN_TOKEN)")
	case err != nil:
		return nil, err
	case w.Refusal != "" && w.Again:
		return nil, errors.New(w.Refusal)
	case w.Refusal != "" && w.AnotherJob:
		return nil, d.another(w.Host, w.Refusal)
	case w.Refusal != "":
		return nil, d.refused(w.Host, w.Refusal)
	case w.NodeRank < 1 || w.NodeRank >= d.cfg.Self.NumNodes || d.cfg.Self.NodeRank >= 0 && w.NodeRank != d.cfg.Self.NodeRank:
		return nil, d.refused(w.Host, fmt.Sprintf("it calls this node %d", w.NodeRank))
	}
	return &Joined{Conn: c, NodeRank: w.NodeRank, Host: w.Host}, nil
}

// tellWaits: node 0 says for whom it waits, once, on its own host.
func (d *dialer) tellWaits() {
	d.cfg.Tell(fmt.Sprintf("node 0 at %s has taken this node and waits for other nodes, which it names there; giving up after %v", d.cfg.endpoint(), d.cfg.Timeout))
}

// another is a refusal by what may be another job.
func (d *dialer) another(host, why string) error {
	e := d.refused(host, why)
	e.elsewhere = true
	return e
}

func (d *dialer) refused(host, why string) *RefusedError {
	return &RefusedError{Endpoint: d.cfg.endpoint(), Host: printable.Text(printable.Short(host)), Why: printable.Text(printable.Short(why))}
}

// endOfStream reports whether the other end closed, or the kernel says that it is gone.
func endOfStream(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

// Come is Listen where this node is node 0, and Dial elsewhere. A node without a rank is
// node 0 if it is on the endpoint's host and nobody listens there yet: of several nodes
// on that host, the first.
func Come(ctx context.Context, cfg Config) (*Head, *Joined, error) {
	listen := cfg.Self.NodeRank == 0
	if cfg.Self.NodeRank < 0 {
		here, err := IsEndpointHere(ctx, cfg.Addr)
		if err != nil && cfg.Tell != nil {
			cfg.Tell(printable.Text(err.Error()))
		}
		listen = here
	}
	if listen {
		at := cfg
		if cfg.Self.NodeRank < 0 { // at another port a second node of this host would be node 0, too
			at.Ports = nil
		}
		h, err := Listen(ctx, at)
		var taken *PortTakenError
		if err == nil || cfg.Self.NodeRank == 0 || !errors.As(err, &taken) {
			return h, nil, err
		}
	}
	j, err := Dial(ctx, cfg)
	return nil, j, err
}
