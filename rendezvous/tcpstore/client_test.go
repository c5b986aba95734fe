package tcpstore

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientSharesKeysWithPyTorch(t *testing.T) {
	s := open(t, Config{})
	c, r := dial(t, s), greet(t, s)
	require.NoError(t, c.Set(t.Context(), "k", []byte("v")))
	r.send(request(opGet, text("/k")), request(opAdd, text("init/"), number(1)))
	r.expect(append(text("v"), number(1)...)...)
	keys, err := c.Keys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, keys, "PyTorch's own are not shown")
	n, err := c.NumKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n, "but counted")
}

// A client in one goroutine uses one connection, and a new one after each wait that it canceled, unless that was over
// before it began.
func TestClientKeepsItsConnection(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, c.Wait(ctx, "never"), context.DeadlineExceeded)
		cancel()
		require.NoError(t, c.Set(t.Context(), "k", nil))
		_, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
	}
	require.LessOrEqual(t, s.Clients(), 1+5)
	require.Equal(t, 1, s.Snapshot().Keys)
	require.Eventually(t, func() bool { return s.Snapshot().Waiting == 0 }, time.Minute, time.Millisecond)
}

func TestErrorsNameTheKey(t *testing.T) {
	c := dial(t, open(t, Config{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := c.Get(ctx, "k")
	require.EqualError(t, err, `get "k": context deadline exceeded`)
}

func TestAnotherGoroutineGetsAnotherConnection(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	got := make(chan error, 1)
	go func() { _, err := c.Get(t.Context(), "k"); got <- err }()
	require.Eventually(t, func() bool { return s.Snapshot().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, c.Set(t.Context(), "k", nil))
	require.NoError(t, <-got)
	require.Equal(t, 2, s.Clients())
}

func TestStoreEndsUnderItsClients(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	over := make(chan error, 1)
	go func() { over <- c.Wait(t.Context(), "never") }()
	require.Eventually(t, func() bool { return s.Snapshot().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorContains(t, <-over, `wait for "never": lost the connection to the store at `+s.Addr().String())
	require.ErrorContains(t, c.Set(t.Context(), "k", nil), "lost the connection")

	again, err := Listen(Config{Port: int(s.Addr().Port())})
	require.NoError(t, err)
	defer again.Close()
	require.ErrorContains(t, c.Set(t.Context(), "k", nil), "lost the",
		"another store at the same address is not its own")
	require.Zero(t, again.Clients())
}

func TestNoNumberEndsTheClient(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	require.NoError(t, c.Set(t.Context(), "k", []byte("x")))
	_, err := c.Add(t.Context(), "k", 1)
	require.ErrorContains(t, err, `add to "k": lost the connection to the store at`)
	_, err = c.Check(t.Context(), "k")
	require.ErrorContains(t, err, "lost the connection")
}

func TestClose(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	over := make(chan error, 1)
	go func() { over <- c.Wait(t.Context(), "never") }()
	require.Eventually(t, func() bool { return s.Snapshot().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-over, ErrClosed)
	require.ErrorIs(t, c.Set(t.Context(), "k", nil), ErrClosed)
	require.NoError(t, c.Close())
}

func TestDialWaitsForAServer(t *testing.T) {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	dialled := make(chan error, 1)
	go func() {
		c, err := Dial(t.Context(), r.Addr().String())
		if err == nil {
			err = c.Close()
		}
		dialled <- err
	}()
	open(t, Config{Port: int(r.Addr().Port())})
	require.NoError(t, <-dialled)
}

func TestDialGivesUp(t *testing.T) {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, r.Addr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = Dial(t.Context(), "127.0.0.1:no-port")
	require.ErrorContains(t, err, "connect to the store at 127.0.0.1:no-port", "and not again")
}

// fake serves one connection with behave.
func fake(t *testing.T, behave func(net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			behave(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l.Addr().String()
}

func TestDialNeedsAnAnswer(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		hold := make(chan struct{})
		addr := fake(t, func(net.Conn) { <-hold })
		defer close(hold)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := Dial(ctx, addr)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("another", func(t *testing.T) {
		_, err := Dial(t.Context(), fake(t, func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-x\r\n"))
			_, _ = io.Copy(io.Discard, c)
		}))
		require.ErrorContains(t, err, "not a store")
	})
}

// A server that hangs cannot keep a call beyond its context.
func TestFrozenServer(t *testing.T) {
	addr := fake(t, func(c net.Conn) {
		hello := make([]byte, 10)
		_, _ = io.ReadFull(c, hello)
		_, _ = c.Write(hello[6:])
		_, _ = io.Copy(io.Discard, c)
	})
	c, err := Dial(t.Context(), addr)
	require.NoError(t, err)
	defer c.Close()
	gaveUp := errors.New("gave up")
	for name, call := range map[string]func(context.Context) error{
		"set":  func(ctx context.Context) error { return c.Set(ctx, "k", nil) },
		"add":  func(ctx context.Context) error { _, err := c.Add(ctx, "k", 1); return err },
		"wait": func(ctx context.Context) error { return c.Wait(ctx, "k") },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gaveUp) })
		require.ErrorIs(t, call(ctx), gaveUp, name)
	}
}

// The reply to an abandoned call is not delivered to another call.
func TestAbandonedAnswers(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	for i := range int64(200) {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := c.Add(ctx, "abandoned", 1)
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		got, err := c.Add(t.Context(), "n", 1)
		require.NoError(t, err)
		require.Equal(t, i+1, got)
	}
}

// If its context ends during a large request, the connection closes, since nothing can follow half a request.
func TestRequestCutInTheMiddle(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for s.Snapshot().Memory < 1<<20 && ctx.Err() == nil { // until the server has received the beginning of the request
		}
		cancel()
	}()
	if err := c.Set(ctx, "k", make([]byte, 48<<20)); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, c.Set(t.Context(), "k", nil))
}
