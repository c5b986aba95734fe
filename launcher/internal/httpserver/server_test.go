package httpserver

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func alive(context.Context, string) Response { return Response{Status: "200 OK", Body: "alive\n"} }

// ask returns the response to arbitrary bytes.
func ask(t *testing.T, question string) string {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = io.WriteString(ours, question) // the server may answer before it has read everything
	}()
	answer := make(chan string)
	go func() {
		text, _ := io.ReadAll(ours)
		answer <- string(text)
	}()
	Answer(t.Context(), theirs, alive)
	require.NoError(t, theirs.Close())
	return <-answer
}

func TestAnswers(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\n"
	assert.Equal(t, head+"alive\n", ask(t, "GET /healthz HTTP/1.1\r\nHost: pod\r\nUser-Agent: kube-probe/1.33\r\n\r\n"))
	assert.Equal(t, head, ask(t, "HEAD / HTTP/1.0\n\n"))
	assert.Contains(t, ask(t, "POST / HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ")
	assert.Contains(t, ask(t, "GET /"+strings.Repeat("x", 1<<20)), "HTTP/1.1 400 ", "only the beginning is read")
	for _, question := range []string{"\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "\x16\x03\x01\x02\x00\r\n\r\n"} {
		assert.Contains(t, ask(t, question), "HTTP/1.1 400 ", question)
	}
}

// flaky fails once, as for lack of descriptors.
type flaky struct {
	net.Listener
	sync.Once
}

func (f *flaky) Accept() (c net.Conn, err error) {
	f.Do(func() { err = syscall.EMFILE })
	if err == nil {
		c, err = f.Listener.Accept()
	}
	return c, err
}

// Silent peers use up the connection limit and no more, and do not delay Close.
func TestPeersAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(&flaky{Listener: listener}, alive)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		return c
	}
	var silent []net.Conn
	for range 2 * maxPeers {
		silent = append(silent, dial())
	}
	require.Eventually(t, func() bool { return len(s.slots) == maxPeers }, time.Minute, time.Millisecond)
	for _, c := range silent {
		require.NoError(t, c.Close())
	}
	c := dial()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(text), "200 OK")
	c = dial()
	s.Close()
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
}
