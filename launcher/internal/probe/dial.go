package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Target is an address at which a node answers probes.
type Target struct {
	Node int
	Addr netip.Addr
	Port int
	// ConnectOnly asks only whether anything of the host answers there: the Result is OK where
	// somebody accepts the connection, who hears nothing.
	ConnectOnly bool
}

// Result is what became of a Target.
type Result struct {
	// Target is its index in the list that was dialed.
	Target int
	// RTT is the time of a round trip, 0 where the node did not prove itself.
	RTT time.Duration
	// Local and Interface are this end of the connection.
	Local     netip.Addr
	Interface string
	// Problem says why the node was not reached.
	Problem string
}

// OK reports whether the node was reached.
func (a Result) OK() bool { return a.RTT > 0 }

// Limits says how long dialing takes.
type Limits struct {
	// Timeout is for a Target, 0 means DefaultTimeout.
	Timeout time.Duration
	// Patience is how much longer the others get when a first one answered, 0 means
	// all of Timeout.
	Patience time.Duration
}

// DefaultTimeout is how long a Target may take, MaxTimeout what a Limits may ask for.
const (
	DefaultTimeout = 2 * time.Second
	MaxTimeout     = 10 * time.Second
)

// maxDials are under way at the same time.
const maxDials = 256

// The words for what went wrong.
const (
	noAnswer    = "no answer"
	otherHost   = "another host answers there"
	refused     = "refused"
	noRoute     = "no route"
	unreachable = "unreachable"
	notWaited   = "slower than others"
	notStarted  = "cancelled"
	forbidden   = "forbidden on the host itself"
	stalls      = "connections are made, but data does not arrive"
)

// Dial tries all targets at once and returns when each has answered or failed:
// answers in the order of targets. Candidates are this host's addresses, by which
// interfaces are named.
func Dial(ctx context.Context, key []byte, targets []Target, own []Candidate, haste Limits) []Result {
	if haste.Timeout <= 0 {
		haste.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(haste.Timeout, MaxTimeout), errTimeout)
	defer cancel()
	hurry, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	repeats := again
	if haste.Patience > 0 {
		repeats = nil
	}
	answers := make([]Result, len(targets))
	var once sync.Once
	var work sync.WaitGroup
	slots := make(chan struct{}, maxDials)
	for i, target := range targets {
		slots <- struct{}{} // each is given back within the timeout
		work.Go(func() {
			defer func() { <-slots }()
			answers[i].Problem = noRoute
			for _, t := range target.onLinks(own) {
				if answers[i] = t.dial(hurry, key, repeats); answers[i].OK() || hurry.Err() != nil {
					break
				}
			}
			answers[i].Target = i
			if rtt := answers[i].RTT; rtt > 0 && haste.Patience > 0 {
				once.Do(func() { time.AfterFunc(max(haste.Patience, 4*rtt), func() { stop(errPatience) }) })
			}
		})
	}
	work.Wait()
	for i := range answers {
		answers[i].Interface = interfaceOf(answers[i].Local, own)
	}
	return answers
}

var (
	errTimeout  = errors.New(noAnswer)
	errPatience = errors.New(notWaited)
)

// onLinks are an IPv6 address of the link alone by each interface that has such an
// address itself, and any other target.
func (t Target) onLinks(own []Candidate) (targets []Target) {
	if !isZoned(t.Addr) {
		return []Target{t}
	}
	for _, c := range own {
		if isZoned(c.Addr) {
			t.Addr = t.Addr.WithZone(c.Interface)
			targets = append(targets, t)
		}
	}
	return targets
}

// isZoned reports whether an address needs the name of an interface beside it.
func isZoned(addr netip.Addr) bool { return addr.Is6() && addr.IsLinkLocalUnicast() }

// interfaceOf names the interface that has an address.
func interfaceOf(addr netip.Addr, own []Candidate) string {
	for _, c := range own {
		if addr.IsValid() && c.Addr.WithZone("") == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == c.Interface) {
			return c.Interface
		}
	}
	if addr.IsLoopback() {
		return "lo"
	}
	return ""
}

// again is when a connection is tried once more that nobody has accepted: a packet may
// be lost, and the kernel repeats the first one after a second. What is lost later it
// repeats sooner. With Patience, which is of many that dial one, nothing is tried again.
var again = []time.Duration{600 * time.Millisecond, 500 * time.Millisecond}

// connect makes a TCP connection to a target as soon as one of several tries is answered. A segment above 0
// bounds the bytes that TCP puts into one packet, each way.
func (t Target) connect(ctx context.Context, again []time.Duration, segment int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results, underway := make(chan result, 1+len(again)), 0
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
	if segment > 0 {
		dialer.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment)
			}), err)
		}
	}
	start := func() {
		underway++
		go func() {
			conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(t.Addr, uint16(t.Port)).String())
			results <- result{conn, err}
		}()
	}
	defer func() { // nothing is left behind
		cancel()
		for ; underway > 0; underway-- {
			if r := <-results; r.err == nil {
				_ = r.conn.Close()
			}
		}
	}()
	start()
	for _, pause := range again {
		select {
		case r := <-results:
			underway--
			return r.conn, r.err
		case <-time.After(pause):
			start()
		}
	}
	r := <-results
	underway--
	return r.conn, r.err
}

// open makes a connection to a node, which proves itself, and tells the round trip that this took.
func (t Target) open(ctx context.Context, key []byte, why *purpose, again []time.Duration, segment int) (net.Conn,
	time.Duration, error,
) {
	began := time.Now()
	conn, err := t.connect(ctx, again, segment)
	connected := time.Since(began)
	if err != nil || t.ConnectOnly {
		return conn, connected, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	rtt, err := converse(conn, why, key, t.Node)
	if err == nil && !stop() {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		_ = conn.Close()
	}
	return conn, min(rtt, connected), err
}

func (t Target) dial(ctx context.Context, key []byte, again []time.Duration) Result {
	conn, rtt, err := t.open(ctx, key, toReach, again, 0)
	if err != nil {
		return Result{Problem: problem(ctx, err)}
	}
	defer conn.Close()
	a := Result{RTT: max(rtt, 1)}
	if !t.ConnectOnly {
		a.Local = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	}
	return a
}

var errStranger = errors.New(otherHost)

// problem says in a few words why a node was not reached.
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
		errors.Is(err, syscall.EPIPE), errors.Is(err, errStranger):
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
