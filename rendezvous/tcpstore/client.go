package tcpstore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Client is a client of a TCPStore server: ours, or PyTorch's since 2.5. Like PyTorch's client it prefixes keys with
// "/" on the wire, so that both see the same keys. Its methods may be called from several goroutines at once.
//
// Every method ends when its context does, with an error that wraps the context's cause, and the client stays usable. A
// change in progress may or may not have happened. When a method that changes the store returns nil, all clients see
// the change. Keys and values are bytes and may be empty. Values belong to the caller, both those passed in and those
// returned.
//
// The protocol does not number requests, so that each call has a connection to itself, which the client keeps for later
// calls. When the server closes a connection, all calls fail from then on: the same port may belong to a later attempt
// of the job with another store.
type Client struct {
	addr string

	mu    sync.Mutex
	links map[*link]struct{}
	idle  []*link
	lost  error // why all calls fail
}

// link is a connection of a [Client].
type link struct {
	net.Conn
	from *reader
}

type reader = bufio.Reader

// ErrClosed is the error of calls after [Client.Close].
var ErrClosed = errors.New("the store's client is closed")

// Dial connects to the store at addr, "host:port". While no server listens, it retries until ctx ends.
func Dial(ctx context.Context, addr string) (*Client, error) {
	c := &Client{addr: addr, links: map[*link]struct{}{}}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		l, err := c.connect(ctx)
		switch {
		case err == nil:
			c.idle = append(c.idle, l)
			return c, nil
		case context.Cause(ctx) != nil || !mayRetry(err):
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
}

// mayRetry reports whether a server may still be starting.
func mayRetry(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, io.EOF, io.ErrUnexpectedEOF,
	}, func(target error) bool { return errors.Is(err, target) })
}

// connect opens another connection.
func (c *Client) connect(ctx context.Context) (*link, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the store at %s: %w", c.addr, orCause(ctx, err))
	}
	l := &link{conn, bufio.NewReader(conn)}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err = l.greet(); !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet the store at %s: %w", c.addr, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		_ = conn.Close()
		return nil, c.lost
	}
	c.links[l] = struct{}{}
	return l, nil
}

// greet sends VALIDATE and, like PyTorch since 2.5, a PING with the process ID. The reply shows that the server is a
// store.
func (l *link) greet() error {
	pid := uint32(os.Getpid())
	answer, err := exchange(l, readUint32, binary.LittleEndian.AppendUint32(append(slices.Clone(greeting), opPing), pid))
	if err == nil && answer != pid {
		err = fmt.Errorf("it is not a store: it answered %#x to %#x", answer, pid)
	}
	return err
}

// orCause returns why ctx ended, if it did. Dialing reports that as a timeout.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) { // ctx will know it in a moment
		return context.DeadlineExceeded
	}
	return err
}

// Close closes the client. Calls in progress fail with [ErrClosed]. It may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose(ErrClosed)
	return nil
}

// lose fails all calls. The caller holds the lock.
func (c *Client) lose(why error) {
	if c.lost == nil {
		c.lost = why
	}
	for l := range c.links {
		_ = l.Conn.Close()
	}
	c.links, c.idle = map[*link]struct{}{}, nil
}

// take returns an idle connection, or a new one.
func (c *Client) take(ctx context.Context) (*link, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		defer c.mu.Unlock()
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return l, nil
	}
	lost := c.lost
	c.mu.Unlock()
	if lost != nil {
		return nil, lost
	}
	return c.connect(ctx)
}

// call sends requests and returns the reply to the last one. The others are WAITs, whose replies it awaits one by one.
func call[T any](
	ctx context.Context, c *Client, read func(*reader) (T, error), requests ...[]byte,
) (answer T, err error) {
	l, err := c.take(ctx)
	if err != nil {
		return answer, err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Conn.Close() }) // no later call may get this one's reply
	answer, err = exchange(l, read, requests...)
	given := !stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case given:
		delete(c.links, l)
		if err != nil {
			err = context.Cause(ctx)
		}
	case err != nil:
		c.lose(fmt.Errorf("lost the connection to the store at %s: %w", c.addr, err))
		err = c.lost
	case c.lost == nil:
		c.idle = append(c.idle, l)
	}
	return answer, err
}

func exchange[T any](l *link, read func(*reader) (T, error), requests ...[]byte) (answer T, err error) {
	for i, request := range requests {
		if i > 0 {
			if _, err = readDone(l.from); err != nil {
				return answer, err
			}
		}
		if _, err = l.Write(request); err != nil {
			return answer, err
		}
	}
	return read(l.from)
}

// send sends a request without a reply, and returns when the server has carried it out. A CHECK of no keys follows it,
// to which every server replies.
func (c *Client) send(ctx context.Context, request []byte) error {
	_, err := call(ctx, c, readReady, append(request, opCheck, 0, 0, 0, 0, 0, 0, 0, 0))
	return err
}
