package join

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

const nobody = 65534

// asNobody runs f on a thread whose sockets belong to another user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	testneeds.Root(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // permanently: the thread ends with this goroutine
		_, _ = unix.SetfsuidRetUid(nobody)
		f()
	}()
	<-done
}

func loopback(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// ask sends a hello to node 0 and returns its answer.
func ask(t *testing.T, c net.Conn) (w Welcome) {
	t.Helper()
	require.NoError(t, writeMessage(c, &Hello{Version: "v1", ID: "job", NumNodes: 2, NodeRank: 1, Host: "evil"}))
	require.NoError(t, readMessage(c, &w))
	return w
}

// Without a token, another user's process on the same host cannot join.
func TestOtherUsersDoNotJoin(t *testing.T) {
	h, log := listenAt(t, 2, nil)
	require.False(t, h.IsInsecure())
	var theirs *net.TCPConn
	asNobody(t, func() {
		var err error
		theirs, err = net.DialTCP("tcp", nil, loopback(port(h)))
		require.NoError(t, err)
	})
	defer theirs.Close()
	require.Contains(t, ask(t, theirs).Refusal, "node 0 has no token, and so accepts only its own user on its own "+
		"host (the peer belongs to user 65534)")
	log.await(t, "user 65534")
	stillWorks(t, h, nil)
}

// The kernel reports root as the owner of a connection whose other end is closed.
func TestNobodysConnectionIsNotOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	theirs, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	ours, err := l.Accept()
	require.NoError(t, err)
	defer ours.Close()
	require.NoError(t, checkOwner(ours))
	require.NoError(t, theirs.Close())
	require.ErrorContains(t, checkOwner(ours), "no process on this host has its other end open")
}

// Without a token, a node takes no orders from another user's process at node 0's port, and does not wait for one
// that sends nothing.
func TestOtherUsersAreNotNodeZero(t *testing.T) {
	for name, answers := range map[string]bool{"welcome": true, "silence": false} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			node := come(t, t.Context(), settings(l.Addr().(*net.TCPAddr).Port, 2, 1, nil))
			var theirs net.Conn
			asNobody(t, func() {
				if theirs, err = l.Accept(); err == nil && answers {
					err = errors.Join(readMessage(theirs, &Hello{}), writeMessage(theirs, &Welcome{NodeRank: 1, Host: "evil"}))
				}
			})
			require.NoError(t, err)
			defer theirs.Close()
			<-node.done
			require.ErrorContains(t, node.err, "without a token, node 0 must run on this host as the same user: the "+
				"peer belongs to user 65534")
		})
	}
}

// Processes of one user on one host need no token, for each kind of address, and get no warning.
func TestOneUserOnOneHost(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "127.0.0.2", "localhost", "::1"} {
		t.Run(addr, func(t *testing.T) {
			log := newLog()
			at := func(port, rank int) Config {
				cfg := settings(port, 2, rank, nil)
				cfg.Addr, cfg.Notify = addr, log.tell
				return cfg
			}
			h, err := Listen(t.Context(), at(0, 0))
			if addr == "::1" && errors.Is(err, unix.EADDRNOTAVAIL) {
				testneeds.Skip(t, "ipv6", "this host has no IPv6")
			}
			require.NoError(t, err)
			defer h.Close()
			meet(t, h, at(port(h), 1))
			require.False(t, h.IsInsecure())
			require.Empty(t, log.text())
		})
	}
}

// An insecure join prints one warning at each end.
func TestInsecureJoin(t *testing.T) {
	logs := [2]*logbook{newLog(), newLog()}
	at := func(port, rank int) Config {
		cfg := settings(port, 2, rank, nil)
		cfg.Insecure, cfg.Notify = true, logs[rank].tell
		return cfg
	}
	h, err := Listen(t.Context(), at(0, 0))
	require.NoError(t, err)
	defer h.Close()
	require.True(t, h.IsInsecure())
	meet(t, h, at(port(h), 1))
	for _, log := range logs {
		require.Equal(t, 1, strings.Count(log.text(), "\n")+1, log.text())
		require.Contains(t, log.text(), "nodes join at 127.0.0.1:")
		require.Contains(t, log.text(), " without a token: anyone who reaches that port can join as a node")
	}
	// one line if all processes print to one place
	task := newLog()
	cfg := at(port(h), 1)
	cfg.RankPerNode, cfg.Notify = true, task.tell
	cfg.warn()
	require.Empty(t, task.text())

	cfg.Secret = secret
	require.NoError(t, h.Close())
	h = listenAmong(t, cfg)
	require.False(t, h.IsInsecure(), "a token counts")
}

// Nodes on several hosts need a secret, and fail at once without one.
func TestNoSecret(t *testing.T) {
	for _, addr := range []string{"192.0.2.1", "node1", "localhost.example", "0.0.0.0"} {
		for rank := -1; rank < 2; rank++ {
			cfg := settings(1, 2, rank, nil)
			cfg.Addr = addr
			_, _, err := Connect(t.Context(), cfg)
			var none *NoSecretError
			require.ErrorAs(t, err, &none)
			require.Equal(t, "join nodes at "+addr+":1: no token: anyone who reaches that port could join as a node",
				err.Error())
		}
	}
	cfg := authenticated(0, 2, 0, user{"alice", errors.New("did you start munged?")})
	cfg.Addr = "192.0.2.1"
	_, err := Listen(t.Context(), cfg)
	require.EqualError(t, err, "join nodes at 192.0.2.1:0: no token (MUNGE is not available: did you start munged?): "+
		"anyone who reaches that port could join as a node")
}
