package tcpstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/rendezvous"
)

// Client is a [rendezvous.Store] that a TCPStore server serves: ours, or PyTorch's since 2.5. Keys get a "/" in front
// on the wire, as PyTorch's client does it, so that both see the same ones.
//
// Calls from several goroutines share a connection and are pipelined. Only one that waits needs a connection for itself
// while it does, since the protocol could not tell which of two answers is the late one; the client then opens another
// for the other calls and keeps it.
//
// A client does not reconnect, as PyTorch's does not: behind the same port could be the store of a later attempt of the
// job. Once a connection is lost, every call fails. The server ends the connection also for Add and Barrier on a key
// that holds no number.
type Client struct {
	addr string

	mu    sync.Mutex
	links []*link
	lost  error // why every call fails
	ends  sync.WaitGroup
}

var _ rendezvous.Store = (*Client)(nil)

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("the store's client is closed")

// Dial connects to the store at addr, "host:port". Where nobody serves yet it tries again until ctx ends.
func Dial(ctx context.Context, addr string) (*Client, error) {
	c := &Client{addr: addr}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := c.connect(ctx)
		switch {
		case err == nil:
			return c, nil
		case context.Cause(ctx) != nil || !nobodyYet(err):
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
}

// nobodyYet reports whether a server may still be about to come.
func nobodyYet(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, io.EOF, io.ErrUnexpectedEOF,
	}, func(target error) bool { return errors.Is(err, target) })
}

// connect opens one more connection and greets.
func (c *Client) connect(ctx context.Context) (*link, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the store at %s: %w", c.addr, orCause(ctx, err))
	}
	l := newLink(conn)
	if err := c.greet(ctx, l); err != nil {
		l.fail(err)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		l.fail(c.lost)
		return nil, c.lost
	}
	c.links = append(c.links, l)
	c.ends.Go(func() {
		<-l.ended
		c.lose(l.failure())
	})
	return l, nil
}

// greet sends VALIDATE and, as PyTorch since 2.5, a PING with the process id, whose answer shows that a store is there.
func (c *Client) greet(ctx context.Context, l *link) error {
	pid := uint32(os.Getpid())
	request := append(slices.Clone(greeting), opPing)
	answer, err := roundTrip(ctx, l, binary.LittleEndian.AppendUint32(request, pid), readUint32)
	if err == nil && answer != pid {
		err = fmt.Errorf("it answered %#x to %#x: no store", answer, pid)
	}
	if err != nil {
		return fmt.Errorf("greet the store at %s: %w", c.addr, err)
	}
	return nil
}

// orCause returns why ctx ended, if it did: dialling reports that as a time-out of its own.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Close ends the client; calls under way fail with [ErrClosed]. It may be called again.
func (c *Client) Close() error {
	c.lose(ErrClosed)
	c.ends.Wait()
	return nil
}

// lose has every call fail from now on.
func (c *Client) lose(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return
	}
	if c.lost = why; !errors.Is(why, ErrClosed) {
		c.lost = fmt.Errorf("connection to the store at %s is lost: %w", c.addr, why)
	}
	for _, l := range c.links {
		l.fail(c.lost)
	}
}

// link returns a connection that nobody holds, a new one where all are held.
func (c *Client) link(ctx context.Context) (*link, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	lost := c.lost
	i := slices.IndexFunc(c.links, func(l *link) bool { return !l.held.Load() })
	var l *link
	if i >= 0 {
		l = c.links[i]
	}
	c.mu.Unlock()
	if lost != nil || l != nil {
		return l, lost
	}
	return c.connect(ctx)
}

// hold returns a connection that is the caller's alone until it releases it. Answers to earlier calls may still be on
// their way.
func (c *Client) hold(ctx context.Context) (*link, error) {
	for {
		l, err := c.link(ctx)
		if err != nil {
			return nil, err
		}
		if l.held.CompareAndSwap(false, true) {
			return l, l.settle(ctx)
		}
	}
}

// ask sends a request over any connection and reads the answer.
func ask[T any](ctx context.Context, c *Client, request []byte, read func(*reader) (T, error)) (T, error) {
	for {
		l, err := c.link(ctx)
		if err != nil {
			var none T
			return none, err
		}
		answer, err := roundTripShared(ctx, l, request, read)
		if !errors.Is(err, errHeld) {
			return answer, c.because(err)
		}
	}
}

// because says why a call failed that was under way when the client was lost.
func (c *Client) because(err error) error {
	var cut *cutError
	if !errors.As(err, &cut) {
		return err
	}
	c.lose(cut.cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// tell sends a request that has no answer of its own, and returns when the server has carried it out: a CHECK of no key
// follows, which is answered. Every server knows it.
func (c *Client) tell(ctx context.Context, request []byte) error {
	request = append(request, opCheck, 0, 0, 0, 0, 0, 0, 0, 0)
	_, err := ask(ctx, c, request, readByte)
	return err
}

// after waits, by a request that is WAIT or BARRIER, and then, if it is not nil, calls then with the connection that
// waited: a server may have promised it what it waited for.
func (c *Client) after(ctx context.Context, request []byte, then func(*link) error) error {
	l, err := c.hold(ctx)
	if err != nil {
		return c.because(err)
	}
	if err = l.wait(ctx, request); err != nil {
		return c.because(err)
	}
	defer l.held.Store(false)
	if then != nil {
		err = then(l)
	}
	return c.because(err)
}

// wired is the name of a key on the wire.
func wired(key string) string { return "/" + key }

// unwired is the opposite of wired; keys without the slash are PyTorch's own.
func unwired(name string) (key string, ok bool) { return strings.CutPrefix(name, "/") }
