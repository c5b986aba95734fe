package tcpstore

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front listens on a port and reads the first n bytes of each connection. It then passes the connection to a server
// without a port.
func front(t *testing.T, cfg Config, n int) (opened, *net.TCPListener) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, err)
	log := &logbook{}
	cfg.Logf = log.logf
	s, err := ListenNowhere(cfg, l.Addr().(*net.TCPAddr).AddrPort())
	require.NoError(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			first := make([]byte, n)
			if _, err := io.ReadFull(c, first); err != nil {
				c.Close()
				continue
			}
			_ = s.Take(c, first)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
		require.NoError(t, s.Close())
	})
	return opened{s, log}, l
}

func TestHandedOverConnections(t *testing.T) {
	for _, read := range []int{0, 1, 5, 10} {
		s, _ := front(t, Config{}, read)
		a, b := dial(t, s), dial(t, s)
		require.NoError(t, a.Set(t.Context(), "k", []byte("v")))
		value, err := b.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "v", string(value))
		require.Equal(t, 2, s.Clients())
		require.Equal(t, 2, s.Snapshot().Connections)
	}
}

// The bytes read before may contain any number of complete requests.
func TestHandedOverWithRequests(t *testing.T) {
	s, l := front(t, Config{}, len(greeting)+5+9+2)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	set := append([]byte{opSet}, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 1, 0, 0, 0, 0, 0, 0, 0, 'v')
	_, err = c.Write(append(append(append([]byte{}, greeting...), opPing, 1, 2, 3, 4), set...))
	require.NoError(t, err)
	_, err = c.Write([]byte{opGet, 1, 0, 0, 0, 0, 0, 0, 0, 'k'})
	require.NoError(t, err)
	answer := make([]byte, 4+8+1)
	_, err = io.ReadFull(c, answer)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 'v'}, answer)
	require.Equal(t, 1, s.Clients())
}

func TestHandedOverGarbage(t *testing.T) {
	s, l := front(t, Config{}, 3)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("GET")) // and then nothing, so that the server's first request is its only event
	require.NoError(t, err)
	_, err = io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, s.log.text(), "not a store client")
}

func TestHandedOverBeyondTheLimit(t *testing.T) {
	s, l := front(t, Config{Limits: Limits{Connections: 1, Greeting: time.Hour}}, 0)
	dial(t, s)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.Contains(t, s.log.text(), "the limit of 1 is reached")
}

func TestTakeAfterClose(t *testing.T) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, err)
	defer l.Close()
	s, err := ListenNowhere(Config{}, l.Addr().(*net.TCPAddr).AddrPort())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	accepted, err := l.AcceptTCP()
	require.NoError(t, err)
	require.ErrorIs(t, s.Take(accepted, nil), ErrEnded)
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// The server serves PyTorch's own client even if another reader consumed its greeting.
func TestTorchClientHandedOver(t *testing.T) {
	python := torchPython(t)
	s, _ := front(t, Config{}, len(greeting))
	c := dial(t, s)
	met := make(chan error, 1)
	go func() { met <- meetTorch(t.Context(), c) }()
	lines := script(t.Context(), t, python, filepath.Join("testdata", "torch_client.py"), "127.0.0.1",
		strconv.Itoa(int(s.Addr().Port())))
	require.Equal(t, "end", lines[len(lines)-1])
	require.NoError(t, <-met)
}
