package agent

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askHealth returns the answer of a health check to arbitrary bytes.
func askHealth(t *testing.T, h *Health, question string) string {
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
	h.answer(theirs)
	require.NoError(t, theirs.Close())
	return <-answer
}

func TestHealthAnswers(t *testing.T) {
	h := &Health{}
	assert.Equal(t, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nalive\n",
		askHealth(t, h, "GET /healthz HTTP/1.1\r\nHost: pod\r\nUser-Agent: kube-probe/1.33\r\n\r\n"))
	assert.Contains(t, askHealth(t, h, "GET / HTTP/1.0\n\n"), " 200 OK\r\n")
	assert.Contains(t, askHealth(t, h, "GET /"+strings.Repeat("x", 1<<20)), "HTTP/1.1 400 ", "only the beginning is read")
	for _, question := range []string{"\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "\x16\x03\x01\x02\x00\r\n\r\n"} {
		assert.Contains(t, askHealth(t, h, question), "HTTP/1.1 400 ", question)
	}

	h.working(true)
	assert.Contains(t, askHealth(t, h, "GET / HTTP/1.1\r\n\r\n"), " 200 OK\r\n", "a frame may take its time")
	h.busy.Store(time.Now().Add(-2 * healthStuck).UnixNano())
	assert.Contains(t, askHealth(t, h, "GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 503 Service Unavailable\r\n")
	h.working(false)
	assert.Contains(t, askHealth(t, h, "GET / HTTP/1.1\r\n\r\n"), " 200 OK\r\n")
}

// Silent peers use up the connection limit and no more.
func TestHealthIsBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := newHealth(listener)
	var silent []net.Conn
	for range 2 * healthPeers {
		c, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		silent = append(silent, c)
	}
	eventually(t, func() bool { return len(h.slots) == healthPeers }, "as many are served as there is room for")
	for _, c := range silent {
		require.NoError(t, c.Close())
	}
	c, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(text), "200 OK")
	h.Close()
}
