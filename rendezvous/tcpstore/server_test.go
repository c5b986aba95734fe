package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/internal/testneeds"
	"gorun/rendezvous"
	"gorun/rendezvous/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logbook collects what a server logs.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func serve(t *testing.T, cfg Config) (*Server, *logbook) {
	log := &logbook{}
	cfg.Logf = log.logf
	s, err := Listen(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, log
}

func connect(t *testing.T, s *Server) *Client {
	c, err := Dial(t.Context(), s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() rendezvous.Store {
		s, _ := serve(t, Config{})
		return func() rendezvous.Store { return connect(t, s) }
	})
}

// raw is a connection that speaks bytes.
type raw struct {
	t *testing.T
	net.Conn
}

var validate = []byte{0, 0xCE, 0xF7, 0x85, 0x3C}

func dialRaw(t *testing.T, s *Server, first ...byte) raw {
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r := raw{t, conn}
	r.send(first...)
	return r
}

func (r raw) send(b ...byte) {
	_, err := r.Write(b)
	require.NoError(r.t, err)
}

func (r raw) expect(want ...byte) {
	r.t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(r, got)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

func (r raw) expectEnd() {
	r.t.Helper()
	_, err := r.Read(make([]byte, 1))
	require.Error(r.t, err)
	require.NotErrorIs(r.t, err, context.DeadlineExceeded)
}

// pong proves that everything before it was served, and nothing was answered.
func (r raw) pong() {
	r.t.Helper()
	r.send(byte(opPing), 1, 2, 3, 4)
	r.expect(1, 2, 3, 4)
}

func text(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func msg(o op, parts ...[]byte) []byte { return append([]byte{byte(o)}, bytes.Join(parts, nil)...) }

func wait(keys ...string) []byte {
	b := msg(opWait, number(int64(len(keys))))
	for _, k := range keys {
		b = append(b, text(k)...)
	}
	return b
}

func TestEveryFragmentation(t *testing.T) {
	s, _ := serve(t, Config{})
	session := bytes.Join([][]byte{
		validate, {byte(opPing), 9, 8, 7, 6}, msg(opSet, text("/k"), text("value")), msg(opGet, text("/k")), wait("/k"),
	}, nil)
	answer := bytes.Join([][]byte{{9, 8, 7, 6}, text("value"), {answerReady}}, nil)
	for size := 1; size <= len(session); size++ {
		r := dialRaw(t, s)
		for rest := session; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			r.send(rest[:min(size, len(rest))]...)
		}
		r.expect(answer...)
		require.NoError(t, r.Close())
	}
}

func TestLateAnswers(t *testing.T) {
	s, _ := serve(t, Config{})
	other := connect(t, s)

	t.Run("other requests are served while one waits", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(wait("/late")...)
		r.pong()
		require.NoError(t, other.Set(t.Context(), "late", nil))
		r.expect(answerReady)
		r.pong()
	})
	t.Run("a cancelled wait is never answered", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(append(wait("/cancelled"), byte(opCancelWait))...)
		r.expect(answerCanceled)
		require.NoError(t, other.Set(t.Context(), "cancelled", nil))
		r.pong()
	})
	t.Run("cancel without a wait", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(byte(opCancelWait))
		r.expect(answerCanceled)
	})
	t.Run("a wait that is over comes before the answer to its cancel", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(wait("/soon")...)
		r.pong()
		require.NoError(t, other.Set(t.Context(), "soon", nil))
		require.NoError(t, other.Wait(t.Context(), "soon"))
		r.send(byte(opCancelWait))
		r.expect(answerReady, answerCanceled)
	})
	t.Run("a key that came and went counts", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(wait("/a", "/b")...)
		r.pong()
		require.NoError(t, other.Set(t.Context(), "a", nil))
		_, err := other.Delete(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, other.Set(t.Context(), "b", nil))
		r.expect(answerReady)
	})
	t.Run("a served queue waiter is not woken for another key", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(wait("/queue")...)
		r.pong()
		require.NoError(t, other.Push(t.Context(), "queue", nil))
		r.expect(answerReady)
		_, err := other.Pop(t.Context(), "queue")
		require.NoError(t, err)
		r.send(wait("/elsewhere")...)
		require.NoError(t, other.Push(t.Context(), "queue", nil))
		r.pong()
	})
	t.Run("a push wakes one", func(t *testing.T) {
		first, second := dialRaw(t, s, validate...), dialRaw(t, s, validate...)
		first.send(wait("/one")...)
		first.pong()
		second.send(wait("/one")...)
		second.pong()
		require.NoError(t, other.Push(t.Context(), "one", nil))
		first.expect(answerReady)
		second.pong()
	})
	t.Run("a set opens a barrier", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(msg(opBarrier, text("/barrier"), number(3))...)
		r.pong()
		require.NoError(t, other.Set(t.Context(), "barrier", nil))
		r.expect(answerReady)
	})
	t.Run("a client that died waiting is forgotten", func(t *testing.T) {
		r := dialRaw(t, s, validate...)
		r.send(wait("/ghost")...)
		r.pong()
		require.NoError(t, r.Close())
		require.NoError(t, other.Set(t.Context(), "ghost", nil))
	})
}

func TestBadPeersEndOnlyThemselves(t *testing.T) {
	old := append(append([]byte(nil), oldHello...), number(1)...)
	for name, tc := range map[string]struct {
		bytes []byte
		log   string
	}{
		"http":            {[]byte("GET / HTTP/1.1\r\n\r\n"), "no store client"},
		"wrong magic":     {[]byte{0, 1, 2, 3, 4}, "no store client"},
		"torch 2.1":       {old, "torch < 2.2"},
		"unknown op":      {append(validate[:5:5], 77), "unknown op code 77"},
		"second validate": {append(validate[:5:5], validate...), "second VALIDATE"},
		"long key":        {append(validate[:5:5], msg(opGet, number(1<<40))...), "key of 1099511627776 bytes"},
		"long value":      {append(validate[:5:5], msg(opSet, text("k"), number(1<<40))...), "value of"},
		"many keys":       {append(validate[:5:5], msg(opWait, number(1<<40))...), "keys in one request"},
		"no number":       {append(validate[:5:5], append(msg(opSet, text("x"), text("y")), msg(opAdd, text("x"), number(1))...)...), "not a decimal number"},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := serve(t, Config{})
			good := connect(t, s)
			r := dialRaw(t, s, tc.bytes...)
			r.expectEnd()
			assert.Contains(t, log.text(), tc.log)
			require.NoError(t, good.Set(t.Context(), "k", nil))
			_, err := good.Get(t.Context(), "k")
			require.NoError(t, err)
		})
	}
}

func TestHalfARequestHoldsUpNobody(t *testing.T) {
	s, _ := serve(t, Config{})
	r := dialRaw(t, s, append(validate[:5:5], msg(opSet, text("/k"), number(1<<20))...)...)
	good := connect(t, s)
	require.NoError(t, good.Set(t.Context(), "k", []byte("v")))
	got, err := good.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "v", string(got))
	require.NoError(t, r.Close())
}

// A client that asks for much and reads nothing holds up nobody, and gets all of
// it when it reads.
func TestSlowReader(t *testing.T) {
	s, _ := serve(t, Config{})
	good := connect(t, s)
	big := bytes.Repeat([]byte("x"), 8<<20)
	require.NoError(t, good.Set(t.Context(), "big", big))
	require.NoError(t, good.Wait(t.Context(), "big"))
	r := dialRaw(t, s, validate...)
	const asked = 20 // 160 MiB: more than may wait
	for range asked {
		r.send(msg(opGet, text("/big"))...)
	}
	require.NoError(t, good.Set(t.Context(), "k", nil))
	_, err := good.Get(t.Context(), "k")
	require.NoError(t, err)
	for range asked {
		r.expect(number(int64(len(big)))...)
		_, err := io.CopyN(io.Discard, r, int64(len(big)))
		require.NoError(t, err)
	}
}

func TestPortOfOnesOwn(t *testing.T) {
	s, _ := serve(t, Config{})
	port := int(s.Addr().Port())
	_, err := Listen(Config{Port: port})
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, port, taken.Port)
	pid, name, ok := Holder(port)
	require.True(t, ok)
	assert.Positive(t, pid)
	assert.NotEmpty(t, name)

	_, err = Listen(Config{Host: "localhost"})
	assert.ErrorContains(t, err, "not an IP address")

	require.NoError(t, s.Close())
	again, err := Listen(Config{Port: port})
	require.NoError(t, err, "a port is free again at once")
	require.NoError(t, again.Close())
}

func TestReservation(t *testing.T) {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err == nil {
		_ = conn.Close()
	}
	require.Error(t, err, "nobody listens")
	s, err := Listen(Config{Port: int(r.Addr().Port())}) // with SO_REUSEADDR, as rank 0 does
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestIPv6(t *testing.T) {
	s, err := Listen(Config{Host: "::1"})
	if err != nil {
		testneeds.Skip(t, "ipv6", err.Error())
	}
	defer s.Close()
	c, err := Dial(t.Context(), s.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestWhoIsAllowed(t *testing.T) {
	l := loop{server: &Server{
		cfg:  Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
		addr: netip.MustParseAddrPort("192.0.2.1:1"),
	}}
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "10.1.2.3": true, "192.0.2.1": true, "10.2.0.1": false, "192.0.2.2": false,
	} {
		assert.Equal(t, want, l.allowed(netip.MustParseAddr(addr)), addr)
	}
}

func TestConnectionsHaveALimit(t *testing.T) {
	s, log := serve(t, Config{Limits: Limits{Connections: 2}})
	connect(t, s)
	connect(t, s)
	r := dialRaw(t, s)
	r.expectEnd()
	assert.Contains(t, log.text(), "which is the limit")
	assert.Equal(t, 2, s.Clients())
}

func TestDialWaitsForAServer(t *testing.T) {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	type result struct {
		c   *Client
		err error
	}
	dialled := make(chan result, 1)
	go func() {
		c, err := Dial(t.Context(), r.Addr().String())
		dialled <- result{c, err}
	}()
	s, err := Listen(Config{Port: int(r.Addr().Port())})
	require.NoError(t, err)
	defer s.Close()
	got := <-dialled
	require.NoError(t, got.err)
	require.NoError(t, got.c.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, s.Close())
	_, err = Dial(ctx, r.Addr().String())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestPrefixes(t *testing.T) {
	s, _ := serve(t, Config{})
	c := connect(t, s)
	inner := c.WithPrefix("outer").WithPrefix("pre")
	require.NoError(t, inner.Set(t.Context(), "x", []byte("v")))
	got, err := c.Get(t.Context(), "outer/pre/x")
	require.NoError(t, err)
	assert.Equal(t, "v", string(got))
	keys, err := inner.Keys(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, keys)
}

func TestStoreEndsUnderItsClients(t *testing.T) {
	s, _ := serve(t, Config{})
	c := connect(t, s)
	over := make(chan error, 1)
	go func() { over <- c.Wait(t.Context(), "never") }()
	_, err := connect(t, s).Check(t.Context(), "x")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Error(t, <-over)
	require.Error(t, c.Set(t.Context(), "k", nil), "and stays so")
}

// FuzzServer feeds a real server arbitrary bytes after a good handshake or
// without one: it goes on serving others.
func FuzzServer(f *testing.F) {
	f.Add(validate)
	f.Add(bytes.Join([][]byte{validate, msg(opSet, text("/k"), text("v")), msg(opGet, text("/k")), wait("/k", "/l"), {byte(opCancelWait)}}, nil))
	f.Add(bytes.Join([][]byte{validate, msg(opPush, text("/q"), text("v")), msg(opPop, text("/q")), msg(opKeys), msg(opBarrier, text("/b"), number(2))}, nil))
	f.Add(bytes.Join([][]byte{validate, msg(opMultiSet, number(2), text("a"), text("1"), text("b"), text("2")), msg(opMultiGet, number(1), text("a"))}, nil))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(validate[:5:5], msg(opAdd, text("init/"), number(1))...))
	s, err := Listen(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := net.Dial("tcp", s.Addr().String())
		require.NoError(t, err)
		_, _ = conn.Write(b)
		require.NoError(t, conn.Close())
		c, err := Dial(t.Context(), s.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.Set(t.Context(), "alive", nil))
		require.NoError(t, c.Close())
	})
}

// FuzzParser checks that the parser never reads beyond the bytes it is given and
// that what is whole stays the same when more follows.
func FuzzParser(f *testing.F) {
	f.Add(msg(opSet, text("/k"), text("v")), []byte("more"))
	f.Add(wait("/a", "/b"), []byte{})
	f.Add(msg(opMultiSet, number(1), text("a"), text("1")), []byte{255})
	f.Add([]byte{byte(opKeys)}, []byte{0})
	f.Fuzz(func(t *testing.T, b, more []byte) {
		limits := Limits{}
		limits.fill()
		p, q := parser{limits: &limits}, parser{limits: &limits}
		n, err := p.next(b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, n, len(b))
		m, err := q.next(append(b[:len(b):len(b)], more...))
		require.NoError(t, err)
		require.Equal(t, n, m)
		require.Equal(t, p.req.op, q.req.op)
		require.Len(t, q.req.texts, len(p.req.texts))
	})
}
