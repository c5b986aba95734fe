package probe

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = bytes.Repeat([]byte("k"), MinKey)

func listen(t *testing.T, node int) *Listener {
	l, err := Listen(testKey, node, 0)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func here(node int, l *Listener) Target {
	return Target{Node: node, Addr: addr("127.0.0.1"), Port: l.Port()}
}

func TestProof(t *testing.T) {
	l := listen(t, 3)
	other, err := Listen(bytes.Repeat([]byte("x"), MinKey), 3, 0)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closedPort := closed.Addr().(*net.TCPAddr).Port
	require.NoError(t, closed.Close())
	own, err := Candidates(fstest.MapFS{})
	require.NoError(t, err)

	answers := Dial(t.Context(), testKey, []Target{
		here(3, l),
		here(4, l),     // the same address, but another node is meant
		here(3, other), // the same address on a host of another job
		{Node: 3, Addr: addr("127.0.0.1"), Port: closedPort},
	}, own, Limits{})
	require.True(t, answers[0].OK())
	require.Equal(t, addr("127.0.0.1"), answers[0].Local)
	require.Equal(t, "lo", answers[0].Interface)
	require.Equal(t, []string{"", otherHost, otherHost, refused},
		[]string{answers[0].Problem, answers[1].Problem, answers[2].Problem, answers[3].Problem})
	for i, a := range answers {
		require.Equal(t, i, a.Target)
		require.Equal(t, i == 0, a.OK())
	}
}

func TestShortKeysAreRefused(t *testing.T) {
	_, err := Listen(testKey[1:], 0, 0)
	require.ErrorContains(t, err, "at least 16")
}

// A peer that sends back what it receives, or is silent, or talks nonsense, is nobody.
func TestUnknownPeersProveNothing(t *testing.T) {
	for name, row := range map[string]struct {
		serve   func(net.Conn)
		problem string
	}{
		"echo":    {func(c net.Conn) { _, _ = io.Copy(c, c) }, otherHost},
		"banner":  {func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("SSH-2.0-OpenSSH\r\n"), 9)) }, otherHost},
		"hang up": {func(net.Conn) {}, otherHost},
		"silent":  {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, noAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			over := make(chan struct{})
			go func() {
				defer close(over)
				conn, err := ln.Accept()
				if err == nil {
					row.serve(conn)
					_ = conn.Close()
				}
			}()
			target := Target{Node: 0, Addr: addr("127.0.0.1"), Port: ln.Addr().(*net.TCPAddr).Port}
			answers := Dial(t.Context(), testKey, []Target{target}, nil, Limits{Timeout: 200 * time.Millisecond})
			require.Equal(t, []Result{{Problem: row.problem}}, answers)
			require.NoError(t, ln.Close())
			<-over
		})
	}
}

// Idle peers, scans and garbage neither stall nor grow the listener, and receive nothing.
func TestManyUnknownPeers(t *testing.T) {
	l := listen(t, 0)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port()))
	var idle []net.Conn
	for i := range maxPeers + 64 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		idle = append(idle, conn)
		switch i % 3 {
		case 1:
			_, _ = conn.Write([]byte(toReach.magic)[:5])
		case 2:
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
	}
	require.True(t, Dial(t.Context(), testKey, []Target{here(0, l)}, nil, Limits{})[0].OK())
	l.mu.Lock()
	require.LessOrEqual(t, len(l.peers), maxPeers)
	l.mu.Unlock()
	l.Close()
	for _, conn := range idle {
		received, _ := io.ReadAll(conn)
		require.Empty(t, received)
		_ = conn.Close()
	}
}

func TestPatience(t *testing.T) {
	l := listen(t, 0)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	targets := []Target{here(0, l), {Node: 0, Addr: addr("127.0.0.1"), Port: silent.Addr().(*net.TCPAddr).Port}}
	answers := Dial(t.Context(), testKey, targets, nil, Limits{Timeout: MaxTimeout, Patience: time.Millisecond})
	require.True(t, answers[0].OK())
	require.Equal(t, notWaited, answers[1].Problem)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, notStarted, Dial(ctx, testKey, targets, nil, Limits{})[1].Problem)
}

// A thousand nodes that come to node 0's listener at once are all served.
func TestThousandNodes(t *testing.T) {
	l := listen(t, 0)
	targets := make([]Target, 1000)
	for i := range targets {
		targets[i] = here(0, l)
	}
	began := time.Now()
	for _, a := range Dial(t.Context(), testKey, targets, nil, Limits{Timeout: MaxTimeout}) {
		require.True(t, a.OK(), a.Problem)
	}
	t.Logf("1000 probes took %s", time.Since(began))
}

func BenchmarkProbe(b *testing.B) {
	l, err := Listen(testKey, 0, 0)
	require.NoError(b, err)
	defer l.Close()
	targets := make([]Target, 1000)
	for i := range targets {
		targets[i] = here(0, l)
	}
	for b.Loop() {
		Dial(b.Context(), testKey, targets, nil, Limits{Timeout: MaxTimeout})
	}
}

// FuzzAnswer: only the job's own greeting gets an answer.
func FuzzAnswer(f *testing.F) {
	good := toReach.greeting(testKey, 1, [nonceSize]byte{7})
	f.Add(good)
	f.Add(good[:greetSize-1])
	f.Add(append([]byte(toReach.magic), make([]byte, greetSize-magicSize)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		reply := answer(testKey, 1, b)
		if reply == nil {
			return
		}
		var nonce [nonceSize]byte
		copy(nonce[:], b[magicSize+4:])
		require.Equal(t, toReach.greeting(testKey, 1, nonce), b)
		require.True(t, toReach.proves(testKey, b, reply))
		require.False(t, toReach.proves(testKey, toReach.greeting(testKey, 2, nonce), reply))
	})
}

// FuzzServe: whatever a peer sends, the connection ends and only a proof is answered.
func FuzzServe(f *testing.F) {
	f.Add([]byte{}, 1)
	f.Add(toReach.greeting(testKey, 0, [nonceSize]byte{}), 9)
	f.Add([]byte(toReach.magic+"garbage"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		l := &Listener{key: testKey}
		near, far := net.Pipe()
		over := make(chan struct{})
		go func() { l.serve(far); close(over) }()
		received := make(chan []byte)
		go func() { all, _ := io.ReadAll(near); received <- all }()
		cut = max(0, min(cut, len(b)))
		_, _ = near.Write(b[:cut])
		_, _ = near.Write(b[cut:])
		reply := answer(testKey, 0, b[:min(len(b), greetSize)])
		_ = near.Close()
		<-over
		if got := <-received; len(got) > 0 {
			require.NotNil(t, reply)
			require.Equal(t, reply, got[:len(reply)])
		}
	})
}
