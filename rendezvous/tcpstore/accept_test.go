package tcpstore

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalNamesTheWayOut(t *testing.T) {
	log := &logbook{}
	l := loop{cfg: Config{AllowOption: "--allow-from"}, complaints: complaints{logf: log.logf}}
	other := netip.MustParseAddrPort("10.0.0.9:5")
	l.refuse(other, errElsewhere)
	l.refuse(other, errElsewhere)
	require.Equal(t, "the store refused a connection from 10.0.0.9: it is not on this host, and its "+
		"address is not allowed; --allow-from 10.0.0.9 accepts it", log.text())
	require.EqualValues(t, 2, l.refused)
}

func TestAllowNetworks(t *testing.T) {
	require.Nil(t, AllowNetworks())
	allow := AllowNetworks(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"))
	for address, want := range map[string]bool{
		"10.9.8.7": true, "::ffff:10.9.8.7": true, "fd00::1": true, "11.0.0.1": false, "2001:db8::1": false,
	} {
		require.Equal(t, want, allow(netip.MustParseAddr(address)), address)
	}
}

// A snapshot includes all earlier requests.
func TestSnapshotCounts(t *testing.T) {
	s := open(t, Config{})
	good := greet(t, s)
	good.send(request(opSet, text("k"), text("v")))
	good.ping()
	bad := dialRaw(t, s)
	bad.send([]byte("GET / HTTP/1.1\r\n\r\n"))
	bad.ended()
	require.Eventually(t, func() bool { return s.Snapshot().Connections == 1 }, time.Minute, time.Millisecond)
	got := s.Snapshot()
	got.Memory = 0
	require.Equal(t, Snapshot{Connections: 1, Keys: 1, Operations: 2, Refused: 1, Progress: 1}, got)
	require.NoError(t, s.Close())
	<-s.Done()
}

// If two ranks of one host exceed a limit, each is logged separately and once.
func TestEachProcessIsNamed(t *testing.T) {
	s := open(t, Config{Limits: Limits{Value: 1}})
	for _, pid := range []byte{1, 2, 2} {
		r := greet(t, s)
		r.send([]byte{opPing, pid, 0, 0, 0})
		r.expect(pid, 0, 0, 0)
		r.send(request(opSet, text("k"), text("long")))
		r.ended()
	}
	require.NoError(t, s.Close())
	require.Equal(t, 2, strings.Count(s.log.text(), "a value of 4 bytes; at most 1 are allowed"), s.log.text())
	require.Contains(t, s.log.text(), "(pid 1)")
	require.Contains(t, s.log.text(), "(pid 2)")
}
