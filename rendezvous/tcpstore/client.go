package tcpstore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"gorun/rendezvous"
)

// Client is a connection to a store, PyTorch's or ours. Requests of several
// goroutines take turns; one that waits has the connection for itself until it
// is over, as in PyTorch. After an error of the connection every call fails: a
// client does not reconnect, since the store that it would find may be another.
type Client struct {
	*session
	prefix string
}

var _ rendezvous.Store = (*Client)(nil)

// session is what all clients with the same connection share.
type session struct {
	conn net.Conn
	turn chan struct{} // holds one token
	r    *bufio.Reader
	buf  []byte
	mu   sync.Mutex
	err  error // that ended the connection
}

// Dial connects to the store at addr, host:port. It waits for the server's
// answer no longer than ctx allows, and tries again while nobody listens yet.
func Dial(ctx context.Context, addr string) (*Client, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := dial(ctx, addr)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the store at %s: %w (last: %w)", addr, context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

func dial(ctx context.Context, addr string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, turn: make(chan struct{}, 1), r: bufio.NewReader(conn)}
	s.turn <- struct{}{}
	c := &Client{session: s, prefix: "/"}
	if err := c.hello(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// hello is VALIDATE and PING; the nonce is our pid, as PyTorch's clients have it.
func (c *Client) hello(ctx context.Context) error {
	var answer uint32
	pid := uint32(os.Getpid())
	err := c.do(ctx, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(append(b, byte(opValidate)), magic)
		return binary.LittleEndian.AppendUint32(append(b, byte(opPing)), pid)
	}, func() error { return binary.Read(c.r, binary.LittleEndian, &answer) })
	if err == nil && answer != pid {
		err = fmt.Errorf("no store answered: %d came back for %d", answer, pid)
	}
	return err
}

// WithPrefix is the part of the store whose keys begin with prefix, over the same
// connection. It composes as PyTorch's PrefixStore does: prefix, "/", key.
func (c *Client) WithPrefix(prefix string) *Client {
	return &Client{session: c.session, prefix: c.prefix + prefix + "/"}
}

// Close ends the connection, for all that share it.
func (c *Client) Close() error { return c.conn.Close() }

// do sends a request and reads its answer, unless ctx ends before.
func (c *Client) do(ctx context.Context, request func([]byte) []byte, answer func() error) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { c.turn <- struct{}{} }()
	if err := c.send(ctx, request); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return c.broken(ctx, c.interruptible(ctx, answer))
}

func (s *session) take(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		s.turn <- struct{}{}
	}
	return s.err
}

func (s *session) send(ctx context.Context, request func([]byte) []byte) error {
	s.buf = request(s.buf[:0])
	return s.broken(ctx, s.interruptible(ctx, func() error {
		_, err := s.conn.Write(s.buf)
		return err
	}))
}

// interruptible runs a step of the conversation that the end of ctx breaks off.
func (s *session) interruptible(ctx context.Context, step func() error) error {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = s.conn.SetDeadline(time.Unix(1, 0))
	})
	err := step()
	if !stop() {
		<-interrupted
		_ = s.conn.SetDeadline(time.Time{})
	}
	return err
}

// broken remembers that the conversation is out of step: nothing can follow.
func (s *session) broken(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = fmt.Errorf("connection to the store is lost: %w", err)
	return s.err
}

// The parts of a request.

func (c *Client) key(b []byte, key string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(c.prefix)+len(key)))
	return append(append(b, c.prefix...), key...)
}

func appendValue(b, v []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...)
}

func (c *Client) keyed(o op, key string, values ...[]byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = c.key(append(b, byte(o)), key)
		for _, v := range values {
			b = appendValue(b, v)
		}
		return b
	}
}

func (c *Client) numbered(o op, key string, n int64) func([]byte) []byte {
	return func(b []byte) []byte {
		return binary.LittleEndian.AppendUint64(c.key(append(b, byte(o)), key), uint64(n))
	}
}

func (c *Client) listed(o op, keys []string) func([]byte) []byte {
	return func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint64(append(b, byte(o)), uint64(len(keys)))
		for _, key := range keys {
			b = c.key(b, key)
		}
		return b
	}
}

func bare(o op) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, byte(o)) }
}

// The parts of an answer.

func (s *session) number(n *int64) func() error {
	return func() error { return binary.Read(s.r, binary.LittleEndian, n) }
}

func (s *session) byte(b *byte) func() error {
	return func() (err error) {
		*b, err = s.r.ReadByte()
		return err
	}
}

// values reads as many values as there is room for.
func (s *session) values(out [][]byte) func() error {
	return func() error {
		for i := range out {
			var err error
			if out[i], err = s.value(); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *session) value() ([]byte, error) {
	var n int64
	if err := s.number(&n)(); err != nil {
		return nil, err
	}
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("a value of %d bytes was announced", n)
	}
	return readGrowing(s.r, int(n))
}

// readGrowing reads n bytes into space that grows with what comes.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	b := make([]byte, 0, min(n, step))
	for len(b) < n {
		have := len(b)
		b = append(b, make([]byte, min(n-have, step))...)
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Set implements rendezvous.Store.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.do(ctx, c.keyed(opSet, key, value), nil)
}

// Get implements rendezvous.Store.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := c.MultiGet(ctx, key)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// Add implements rendezvous.Store. PyTorch's protocol has no answer for a key that
// holds no number: the server ends the connection.
func (c *Client) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	err = c.do(ctx, c.numbered(opAdd, key, delta), c.number(&sum))
	return sum, notANumber(key, err)
}

// notANumber explains the end of a connection on which a counter was asked for.
func notANumber(key string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("key %q: %w, or the store is gone: %w", key, rendezvous.ErrNotANumber, err)
	}
	return err
}

// CompareSet implements rendezvous.Store.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	out := make([][]byte, 1)
	err := c.do(ctx, c.keyed(opCompareSet, key, expected, desired), c.values(out))
	return out[0], err
}

// Append implements rendezvous.Store.
func (c *Client) Append(ctx context.Context, key string, more []byte) error {
	return c.do(ctx, c.keyed(opAppend, key, more), nil)
}

// Check implements rendezvous.Store.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	answer := byte(answerNotReady)
	err := c.do(ctx, c.listed(opCheck, keys), c.byte(&answer))
	return err == nil && answer == answerReady, err
}

// Wait implements rendezvous.Store.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	return c.wait(ctx, c.listed(opWait, keys))
}

// wait sends a request that may be answered late, and takes it back when ctx ends.
func (c *Client) wait(ctx context.Context, request func([]byte) []byte) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { c.turn <- struct{}{} }()
	if err := c.send(ctx, request); err != nil {
		return err
	}
	err := c.interruptible(ctx, func() error {
		_, err := c.r.ReadByte()
		return err
	})
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return c.takeBack(ctx, cause)
	}
	return c.broken(ctx, err)
}

// cancelLimit is how long the server may take to answer CANCEL_WAIT.
const cancelLimit = 5 * time.Second

// takeBack cancels a wait. The answer is 01, or 00 01 if the wait was over just
// before.
func (c *Client) takeBack(ctx context.Context, cause error) error {
	_ = c.conn.SetDeadline(time.Now().Add(cancelLimit))
	defer c.conn.SetDeadline(time.Time{})
	_, err := c.conn.Write([]byte{byte(opCancelWait)})
	for b := byte(answerReady); b == answerReady && err == nil; {
		b, err = c.r.ReadByte()
	}
	if err != nil {
		return c.broken(ctx, err)
	}
	return cause
}

// Delete implements rendezvous.Store.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	var n int64
	err := c.do(ctx, c.keyed(opDelete, key), c.number(&n))
	return n > 0, err
}

// NumKeys implements rendezvous.Store. It counts the keys of everybody.
func (c *Client) NumKeys(ctx context.Context) (n int64, err error) {
	err = c.do(ctx, bare(opNumKeys), c.number(&n))
	return n, err
}

// Keys implements rendezvous.Store: the keys with this client's prefix, without
// it. It needs a server of PyTorch 2.10 or later, or ours.
func (c *Client) Keys(ctx context.Context) (keys []string, err error) {
	err = c.do(ctx, bare(opKeys), func() error {
		var n int64
		if err := c.number(&n)(); err != nil {
			return err
		}
		for range n {
			key, err := c.value()
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(string(key), c.prefix); ok {
				keys = append(keys, own)
			}
		}
		return nil
	})
	return keys, err
}

// MultiGet implements rendezvous.Store.
func (c *Client) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	if err := c.Wait(ctx, keys...); err != nil {
		return nil, err
	}
	out := make([][]byte, len(keys))
	err := c.do(ctx, c.listed(opMultiGet, keys), c.values(out))
	return out, err
}

// MultiSet implements rendezvous.Store.
func (c *Client) MultiSet(ctx context.Context, pairs ...rendezvous.Pair) error {
	return c.do(ctx, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint64(append(b, byte(opMultiSet)), uint64(len(pairs)))
		for _, p := range pairs {
			b = appendValue(c.key(b, p.Key), p.Value)
		}
		return b
	}, nil)
}

// Push implements rendezvous.Store.
func (c *Client) Push(ctx context.Context, queue string, value []byte) error {
	return c.do(ctx, c.keyed(opPush, queue, value), nil)
}

// Pop implements rendezvous.Store.
func (c *Client) Pop(ctx context.Context, queue string) (value []byte, err error) {
	var before int64
	err = c.do(ctx, c.keyed(opPop, queue), func() error {
		if err := c.number(&before)(); err != nil || before == 0 {
			return err
		}
		value, err = c.value()
		return err
	})
	if err == nil && before == 0 {
		return nil, fmt.Errorf("pop from queue %q: %w", queue, rendezvous.ErrNotFound)
	}
	return value, err
}

// QueueLen implements rendezvous.Store.
func (c *Client) QueueLen(ctx context.Context, queue string) (n int64, err error) {
	err = c.do(ctx, c.keyed(opQueueLen, queue), c.number(&n))
	return n, err
}

// Barrier implements rendezvous.Store.
func (c *Client) Barrier(ctx context.Context, key string, size int64) error {
	return notANumber(key, c.wait(ctx, c.numbered(opBarrier, key, size)))
}
