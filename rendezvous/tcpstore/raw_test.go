package tcpstore

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw is a connection that sends and receives plain bytes.
type raw struct {
	net.Conn
	t testing.TB
}

// dialRaw connects without a greeting.
func dialRaw(t testing.TB, s opened) raw {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return raw{conn, t}
}

// greet connects and sends the greeting.
func greet(t testing.TB, s opened) raw {
	r := dialRaw(t, s)
	r.send(greeting)
	return r
}

func (r raw) send(parts ...[]byte) {
	r.t.Helper()
	for _, b := range parts {
		_, err := r.Write(b)
		require.NoError(r.t, err)
	}
}

func (r raw) expect(want ...byte) {
	r.t.Helper()
	got := make([]byte, len(want))
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(time.Minute))) // a shorter reply fails instead of hanging
	_, err := io.ReadFull(r, got)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

// ended requires that the server closes the connection and sends nothing more.
func (r raw) ended() {
	r.t.Helper()
	n, err := r.Read(make([]byte, 1))
	require.Zero(r.t, n)
	require.Error(r.t, err)
}

// ping shows that the server handled all earlier requests without further replies.
func (r raw) ping() {
	r.t.Helper()
	r.send([]byte{opPing, 1, 2, 3, 4})
	r.expect(1, 2, 3, 4)
}
