package tcpstore

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReservation(t *testing.T) {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, "127.0.0.1", r.Addr().Addr().String())
	port := int(r.Addr().Port())

	conn, err := net.Dial("tcp", r.Addr().String())
	if err == nil {
		conn.Close()
	}
	require.Error(t, err, "nobody listens")

	// Without SO_REUSEADDR the port is taken, at every address.
	plain := net.ListenConfig{Control: withoutReuse}
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		other, err := plain.Listen(context.Background(), "tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			other.Close()
		}
		require.Error(t, err, host)
	}

	// With SO_REUSEADDR a program can listen on the port, at one address or at all.
	for _, host := range []string{"127.0.0.1", "::"} {
		rank0, err := Listen(Config{Host: host, Port: port})
		require.NoError(t, err, host)
		if host == "::" {
			require.NoError(t, r.Close(), "who listens keeps it")
		}
		c, err := Dial(t.Context(), r.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, rank0.Close())
	}
	require.NoError(t, r.Close(), "again")
}

// A process that requests any free port never gets a reserved one. The kernel has 28,000 ports, so a few attempts
// would rarely show a failure. The reverse does: no reservation is a port that is in use.
func TestReservationsDiffer(t *testing.T) {
	seen := map[uint16]bool{}
	for range 200 {
		r, err := Reserve("", 0)
		require.NoError(t, err)
		defer r.Close()
		require.False(t, seen[r.Addr().Port()])
		seen[r.Addr().Port()] = true
	}
	for range 200 {
		s, err := Listen(Config{})
		require.NoError(t, err)
		defer s.Close()
		require.False(t, seen[s.Addr().Port()])
	}
}

func TestReservedPortIsTaken(t *testing.T) {
	s := open(t, Config{})
	port := int(s.Addr().Port())
	_, err := Reserve("127.0.0.1", port)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, "127.0.0.1", taken.Host)
	require.Equal(t, port, taken.Port)
	_, err = Reserve("somewhere", 0)
	require.ErrorContains(t, err, "use an IP address")
}

func TestHolder(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::"} {
		s := open(t, Config{Host: host})
		pid, name, ok := Holder(int(s.Addr().Port()))
		require.True(t, ok)
		require.Equal(t, os.Getpid(), pid)
		comm, err := os.ReadFile("/proc/self/comm")
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(comm)), name)
	}
	r, err := Reserve("", 0)
	require.NoError(t, err)
	defer r.Close()
	_, _, ok := Holder(int(r.Addr().Port()))
	require.False(t, ok, "nobody listens")
}

// If two jobs use the same port, the second one reports the first instead of mixing their ranks.
func TestPortThatIsReservedByNumber(t *testing.T) {
	free, err := Reserve("", 0)
	require.NoError(t, err)
	port := int(free.Addr().Port())
	require.NoError(t, free.Close())

	first, err := Reserve("", port)
	require.NoError(t, err)
	_, err = Reserve("", port)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, os.Getpid(), taken.Claimant)
	require.Equal(t, "port "+strconv.Itoa(port)+" is taken by another job (gorun, pid "+strconv.Itoa(os.Getpid())+")",
		taken.Explain())
	require.NoError(t, first.Close())
	again, err := Reserve("", port)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
