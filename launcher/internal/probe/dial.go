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
)

// Target is an address at which a node answers probes.
type Target struct {
	Node int
	Addr netip.Addr
	Port int
	// Knock asks only whether anything of the host answers there: the Answer is OK where
	// somebody accepts the connection, who hears nothing.
	Knock bool
}

// Answer is what became of a Target.
type Answer struct {
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
func (a Answer) OK() bool { return a.RTT > 0 }

// Haste says how long dialing takes.
type Haste struct {
	// Timeout is for a Target, 0 means DefaultTimeout.
	Timeout time.Duration
	// Patience is how much longer the others get when a first one answered, 0 means
	// all of Timeout.
	Patience time.Duration
}

// DefaultTimeout is how long a Target may take, MaxTimeout what a Haste may ask for.
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
// answers in the order of targets. Own are this host's addresses, by which
// interfaces are named.
func Dial(ctx context.Context, key []byte, targets []Target, own []Candidate, haste Haste) []Answer {
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
	answers := make([]Answer, len(targets))
	var once sync.Once
	var work sync.WaitGroup
	slots := make(chan struct{}, maxDials)
	for i, target := range targets {
		slots <- struct{}{} // each is given back within the timeout
		work.Go(func() {
			defer func() { <-slots }()
			answers[i] = dialOnLinks(hurry, key, target, own, repeats)
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

// dialOnLinks dials an IPv6 address of the link alone by each interface that has such
// an address itself, and any other one once.
func dialOnLinks(ctx context.Context, key []byte, target Target, own []Candidate, again []time.Duration) (best Answer) {
	if !isZoned(target.Addr) {
		return dial(ctx, key, target, again)
	}
	best.Problem = noRoute
	for _, c := range own {
		if !isZoned(c.Addr) || ctx.Err() != nil {
			continue
		}
		target.Addr = target.Addr.WithZone(c.Interface)
		a := dial(ctx, key, target, again)
		if a.OK() {
			return a
		}
		best = a
	}
	return best
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

// persist connects to a target as soon as one of several tries is answered.
func persist(ctx context.Context, addr string, again []time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results, underway := make(chan result, 1+len(again)), 0
	start := func() {
		underway++
		go func() {
			dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
			conn, err := dialer.DialContext(ctx, "tcp", addr)
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

func dial(ctx context.Context, key []byte, target Target, again []time.Duration) Answer {
	began := time.Now()
	conn, err := persist(ctx, netip.AddrPortFrom(target.Addr, uint16(target.Port)).String(), again)
	if err != nil {
		return Answer{Problem: problem(ctx, err)}
	}
	connected := time.Since(began)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if target.Knock {
		return Answer{RTT: max(connected, 1)}
	}
	rtt, err := converse(conn, toReach, key, target.Node)
	if err != nil {
		return Answer{Problem: problem(ctx, err)}
	}
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	return Answer{RTT: max(min(rtt, connected), 1), Local: local}
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
