package gather

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/internal/reach/join"
)

// How an agent dials: one address after the other in quick turn, and all of them again
// after a while.
const (
	nextAddr  = 20 * time.Millisecond
	nextRound = 500 * time.Millisecond
	oneDial   = 10 * time.Second
)

// Come takes an agent to its head and returns the stream between them, once all agents
// have come. lookup returns a variable of the agent's environment. Once gone is closed,
// as the head may be gone, it is not tried again.
func Come(ctx context.Context, i *Invitation, gone <-chan struct{},
	lookup func(name string) (string, bool),
) (net.Conn, error) {
	secure, err := join.TLS(i.Token, forAgent, forHead)
	if err != nil {
		return nil, err
	}
	own := hello{Version: version.String()}
	own.Host, _ = os.Hostname() // "" matches no host, which the head says
	for _, name := range i.NodeIDs {
		if v, ok := lookup(name); ok && v != "" && own.Node == "" {
			own.Node = v
		}
	}
	ctx, cancel := context.WithTimeout(ctx, i.Within)
	defer cancel()
	conn, err := i.dial(ctx, secure, gone)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", own.name(), err)
	}
	if err := own.present(ctx, conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", own.name(), err)
	}
	return conn, nil
}

// name is how messages call the agent's node.
func (h *hello) name() string {
	if h.Node != "" {
		return printable.Text(printable.Short(h.Node))
	}
	return printable.Text(printable.Short(h.Host))
}

// present says who the agent is and waits until all have come.
func (h *hello) present(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var w welcome
	err := writeMessage(conn, h)
	if err == nil {
		err = readMessage(conn, &w)
	}
	switch {
	case w.Refusal != "":
		return errors.New("the head refused this agent: " + printable.Text(printable.Short(w.Refusal)))
	case err != nil && ctx.Err() != nil:
		return errors.New("not all agents came in time")
	case err != nil:
		return fmt.Errorf("the head is gone: %w", err)
	}
	if !stop() {
		return errors.New("not all agents came in time")
	}
	return conn.SetDeadline(time.Time{})
}

// dial tries all addresses until one proves the token.
func (i *Invitation) dial(ctx context.Context, secure *tls.Config, gone <-chan struct{}) (net.Conn, error) {
	for {
		conn, err := i.round(ctx, secure)
		if err == nil {
			return conn, nil
		}
		timer := time.NewTimer(nextRound)
		select {
		case <-ctx.Done():
		case <-gone:
		case <-timer.C:
			continue
		}
		timer.Stop()
		return nil, err
	}
}

// dialed is how one address was.
type dialed struct {
	conn net.Conn
	err  error
}

// round dials each address once. The first that proves the token wins, the others are
// closed.
func (i *Invitation) round(ctx context.Context, secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tried := make(chan dialed)
	begin := func(addr netip.Addr) {
		conn, err := dialOne(ctx, netip.AddrPortFrom(addr, uint16(i.Port)), secure)
		select {
		case tried <- dialed{conn, err}:
		case <-ctx.Done():
			if err == nil {
				conn.Close()
			}
		}
	}
	next := time.NewTimer(0)
	defer next.Stop()
	var problems []string
	for begun := 0; len(problems) < len(i.Addrs); {
		select {
		case <-next.C:
			if begun < len(i.Addrs) {
				go begin(i.Addrs[begun])
				begun++
				next.Reset(nextAddr)
			}
		case a := <-tried:
			if a.err == nil {
				return a.conn, nil
			}
			problems = append(problems, a.err.Error())
			next.Reset(0)
		}
	}
	return nil, errors.New("no way to the head: " + printable.Text(strings.Join(problems, "; ")))
}

func dialOne(ctx context.Context, addr netip.AddrPort, secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, oneDial)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, reason(err))
	}
	conn := tls.Client(raw, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return conn, nil
}

// reason is why a connection failed, without what is said beside it.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
