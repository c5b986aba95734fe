package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Target is an address on which a node answers probes.
type Target struct {
	Node int
	Addr netip.Addr
	Port int
	// ConnectOnly skips the handshake: any listener on the host counts.
	ConnectOnly bool
}

// Result is the outcome of dialing a Target.
type Result struct {
	Target int           // index in the list that was dialed
	RTT    time.Duration // round-trip time, 0 if the node was not reached
	// Local and Interface are the local end of the connection.
	Local     netip.Addr
	Interface string
	Problem   string // why the node was not reached
}

// OK reports whether the node was reached.
func (r Result) OK() bool { return r.RTT > 0 }

// Limits bounds how long dialing takes.
type Limits struct {
	// Timeout is for each Target; 0 means DefaultTimeout. At most MaxTimeout.
	Timeout time.Duration
	// Patience is how much longer other targets may take once one has answered; 0 means all of Timeout.
	Patience time.Duration
}

const (
	DefaultTimeout = 2 * time.Second
	MaxTimeout     = 10 * time.Second
)

// maxDials bounds concurrent dials.
const maxDials = 256

// Values of Result.Problem.
const (
	noAnswer    = "no answer"
	otherHost   = "another host answers there"
	refused     = "refused"
	noRoute     = "no route"
	unreachable = "unreachable"
	notWaited   = "slower than others"
	notStarted  = "cancelled"
	forbidden   = "a firewall on the dialing host forbids it"
	stalls      = "connections open, but data does not arrive"
)

var (
	errOtherHost = errors.New(otherHost)
	errTimeout   = errors.New(noAnswer)
	errPatience  = errors.New(notWaited)
)

// Dial tries all targets at once and returns a Result for each, in their order. own are this host's addresses, which
// name the interfaces in the results.
func Dial(ctx context.Context, key []byte, targets []Target, own []Candidate, limits Limits) []Result {
	if limits.Timeout <= 0 {
		limits.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(limits.Timeout, MaxTimeout), errTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	repeats := retries
	if limits.Patience > 0 {
		repeats = nil // many nodes dial one
	}
	results := make([]Result, len(targets))
	var once sync.Once
	var work sync.WaitGroup
	slots := make(chan struct{}, maxDials)
	for i, target := range targets {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			r := Result{Problem: noRoute}
			for _, t := range target.zoned(own) {
				if r = t.dial(ctx, key, repeats); r.OK() || ctx.Err() != nil {
					break
				}
			}
			r.Target, r.Interface = i, interfaceOf(r.Local, own)
			results[i] = r
			if r.OK() && limits.Patience > 0 {
				once.Do(func() { time.AfterFunc(max(limits.Patience, 4*r.RTT), func() { stop(errPatience) }) })
			}
		})
	}
	work.Wait()
	return results
}

// zoned returns the target, a link-local one once for each interface that has a link-local address.
func (t Target) zoned(own []Candidate) (targets []Target) {
	if !needsZone(t.Addr) {
		return []Target{t}
	}
	for _, c := range own {
		if needsZone(c.Addr) {
			t.Addr = t.Addr.WithZone(c.Interface)
			targets = append(targets, t)
		}
	}
	return targets
}

// interfaceOf returns the interface that has an address, or "".
func interfaceOf(addr netip.Addr, own []Candidate) string {
	i := slices.IndexFunc(own, func(c Candidate) bool { return addr.IsValid() && c.has(addr) })
	switch {
	case i >= 0:
		return own[i].Interface
	case addr.IsLoopback():
		return "lo"
	}
	return ""
}

// retries are the pauses before an unanswered connection is tried again. The kernel repeats a lost SYN only after a
// second; it repeats what is lost later sooner.
var retries = []time.Duration{600 * time.Millisecond, 500 * time.Millisecond}

// connect makes a TCP connection, by the first of several attempts that gets an answer. A maxSegment above 0 bounds the
// bytes that TCP puts into one packet, in both directions.
func (t Target) connect(ctx context.Context, retries []time.Duration, maxSegment int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
	if maxSegment > 0 {
		dialer.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, maxSegment)
			}), err)
		}
	}
	results := make(chan result)
	for {
		go func() {
			conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(t.Addr, uint16(t.Port)).String())
			select {
			case results <- result{conn, err}:
			case <-ctx.Done():
				if err == nil {
					_ = conn.Close()
				}
			}
		}()
		var next <-chan time.Time
		if len(retries) > 0 {
			next, retries = time.After(retries[0]), retries[1:]
		}
		select {
		case r := <-results:
			return r.conn, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-next:
		}
	}
}

// open connects to a node and checks its identity. It returns the round-trip time.
func (t Target) open(ctx context.Context, key []byte, why *purpose, retries []time.Duration, maxSegment int) (net.Conn,
	time.Duration, error,
) {
	start := time.Now()
	conn, err := t.connect(ctx, retries, maxSegment)
	connected := time.Since(start)
	if err != nil || t.ConnectOnly {
		return conn, connected, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	rtt, err := why.handshake(conn, key, t.Node)
	if err == nil && !stop() {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		_ = conn.Close()
	}
	return conn, min(rtt, connected), err
}

func (t Target) dial(ctx context.Context, key []byte, retries []time.Duration) Result {
	conn, rtt, err := t.open(ctx, key, toReach, retries, 0)
	if err != nil {
		return Result{Problem: problem(ctx, err)}
	}
	defer conn.Close()
	r := Result{RTT: max(rtt, 1)}
	if !t.ConnectOnly {
		r.Local = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	}
	return r
}

// problem describes in a few words why a node was not reached.
func problem(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return noRoute
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return forbidden
	case errors.Is(err, syscall.EHOSTUNREACH):
		return unreachable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, errOtherHost):
		return otherHost
	case errors.Is(context.Cause(ctx), errPatience):
		return notWaited
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(context.Cause(ctx), errTimeout):
		return noAnswer
	case ctx.Err() != nil:
		return notStarted
	}
	return err.Error()
}
