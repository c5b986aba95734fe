package tcpstore

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/peersocket"
)

// everybody accepts all other hosts.
func everybody(netip.Addr) bool { return true }

// from returns a connection that counts as another host's.
func from(t *testing.T, s opened, host string) raw {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	taken, err := l.AcceptTCP()
	require.NoError(t, err)
	defer taken.Close()
	fd, err := own(taken)
	require.NoError(t, err)
	peer := peersocket.Ends{Local: s.Addr(), Remote: netip.AddrPortFrom(netip.MustParseAddr(host), 5)}
	require.True(t, s.enqueue(func(l *loop) { l.takeOver(fd, peer, greeting) }, false))
	return raw{conn, t}
}

// sets stores a value of a size and reports whether the server keeps the connection open.
func (r raw) sets(key string, size int) bool {
	r.t.Helper()
	_, err := r.Write(request(opSet, text(key), text(string(bytes.Repeat([]byte("x"), size)))))
	for range 2 { // replies before a fault are sent
		if err == nil {
			_, err = r.Write([]byte{opPing, 1, 2, 3, 4})
		}
		if err == nil {
			_, err = io.ReadFull(r, make([]byte, 4))
		}
	}
	return err == nil
}

// A host that fills the store leaves as much to other hosts as it uses.
func TestHostCannotFillTheStore(t *testing.T) {
	s := open(t, Config{Allow: everybody, Limits: Limits{Memory: 1 << 20}})
	greedy, size := from(t, s, "203.0.113.1"), 64<<10
	kept := 0
	for greedy.sets("/greedy/"+strconv.Itoa(kept), size) {
		kept++
	}
	require.InDelta(t, 8, kept, 1, "half")
	again := from(t, s, "203.0.113.1")
	require.False(t, again.sets("/greedy/more", size), "what it stored is still there")
	for i, other := range []raw{from(t, s, "203.0.113.2"), greet(t, s)} {
		for k := range 2 {
			require.True(t, other.sets(fmt.Sprint("/other/", i, k), size), s.log.text())
		}
	}
	require.Regexp(t,
		`^the store disconnected 203\.0\.113\.1:5 \(pid \d+\): this host stores \d+ bytes, and the limit for one `+
			`host is \d+ of 1048576\n`,
		s.log.text())
}

// When another host overwrites or deletes a value, the share of the original host becomes free.
func TestShareIsFreedByOthers(t *testing.T) {
	s := open(t, Config{Allow: everybody, Limits: Limits{Memory: 1 << 20}})
	a, b, size := from(t, s, "203.0.113.1"), from(t, s, "203.0.113.2"), 300<<10
	for i := range 20 {
		require.True(t, a.sets("/k", size), "round %d: %s", i, s.log.text())
		if i%2 == 0 {
			require.True(t, b.sets("/k", 1))
		} else {
			b.send(request(opDelete, text("/k")))
			b.expect(1, 0, 0, 0, 0, 0, 0, 0)
		}
	}
}

// Requests and replies in progress count like stored values, until the connection ends.
func TestShareOfWhatIsUnderWay(t *testing.T) {
	s := open(t, Config{Allow: everybody, Limits: Limits{Memory: 1 << 20}})
	for range 3 {
		half := from(t, s, "203.0.113.1")
		whole := request(opSet, text("/k"), text(string(make([]byte, 900<<10))))
		_, _ = half.Write(whole[:len(whole)-1])
		half.ended()
	}
	require.True(t, from(t, s, "203.0.113.1").sets("/k", 1))
}

// A host cannot use up all connections, even without greetings.
func TestHostCannotTakeAllConnections(t *testing.T) {
	s := open(t, Config{Allow: everybody, Limits: Limits{Connections: 8}})
	served := 0
	for range 8 {
		r := from(t, s, "203.0.113.1")
		_, _ = r.Write([]byte{opPing, 1, 2, 3, 4})
		if _, err := io.ReadFull(r, make([]byte, 4)); err == nil {
			served++
		}
	}
	require.Equal(t, 4, served)
	from(t, s, "203.0.113.2").ping()
	for range 3 {
		greet(t, s).ping()
	}
	require.Equal(t, "the store refused a connection from 203.0.113.1: this host has 4 open "+
		"connections, and the limit for one host is 4 of 8", s.log.text())
}

// If all users of this host are accepted, they share one limit. By default the user's own ranks have no limit.
func TestShareOfThisHost(t *testing.T) {
	for all, want := range map[bool]bool{true: false, false: true} {
		s := open(t, Config{AllowLocalUsers: all, Limits: Limits{Memory: 1 << 20}})
		require.Equal(t, want, greet(t, s).sets("/k", 700<<10))
	}
}
