package probe

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeasureHere(t *testing.T) {
	l, err := Listen(testKey, 3, 0)
	require.NoError(t, err)
	defer l.Close()
	all := Measure(t.Context(), testKey, []Target{here(3, l), here(2, l)}, nil)
	m := all[0]
	require.Empty(t, m.Problem)
	require.Positive(t, m.RTT)
	require.Positive(t, m.Segments)
	require.Positive(t, m.Bytes)
	require.Positive(t, m.Time)
	require.Zero(t, m.Vanishes)
	require.Greater(t, m.Packet, 1500, "the loopback's packets are large")
	require.Equal(t, Measured{Target: 1, Problem: otherHost}, all[1], "another node proves nothing")
	require.Equal(t, otherHost, Measure(t.Context(), []byte("another key of a job"), []Target{here(3, l)}, nil)[0].Problem)
	ended, end := context.WithCancel(t.Context())
	end()
	require.Equal(t, notStarted, Measure(ended, testKey, []Target{here(3, l)}, nil)[0].Problem)
}

// A node that proves itself and then takes nothing is one of which nothing is known.
func TestMeasureWhatStalls(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			greet := make([]byte, greetSize)
			if _, err := io.ReadFull(conn, greet); err == nil {
				_, _ = conn.Write(answer(testKey, 0, greet))
			}
		}
	}()
	m := Measure(t.Context(), testKey, []Target{{Addr: addr("127.0.0.1"), Port: ln.Addr().(*net.TCPAddr).Port}}, nil)
	require.Equal(t, []Measured{{Problem: stalls}}, m)
}

func TestLimitOf(t *testing.T) {
	sizes := []int{576, 1400, 1500, 9000}
	for _, row := range []struct {
		arrived          []bool
		passes, vanishes int
	}{
		{[]bool{true, true, false, false}, 1400, 1500},
		{[]bool{true, true, true, false}, 1500, 9000},
		{[]bool{true, true, true, true}, 0, 0},
		{[]bool{true, false, true, false}, 0, 0}, // lost by chance
		{[]bool{false, false, false, false}, 0, 0},
	} {
		passes, vanishes := limitOf(sizes, row.arrived)
		require.Equal(t, [2]int{row.passes, row.vanishes}, [2]int{passes, vanishes}, "%v", row.arrived)
	}
}

// A knock asks only whether anything is there.
func TestKnock(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	knock := func() []Result {
		return Dial(t.Context(), testKey, []Target{{Addr: addr("127.0.0.1"), Port: port, ConnectOnly: true}}, nil, Limits{})
	}
	require.Equal(t, PortsOpen, ClassifyPorts(knock()))
	require.NoError(t, ln.Close())
	require.Equal(t, PortsClosed, ClassifyPorts(knock()))
	require.Equal(t, PortsFiltered, ClassifyPorts([]Result{{Problem: noAnswer}}))
	require.Empty(t, ClassifyPorts(nil))
}

func TestAsides(t *testing.T) {
	var own []Candidate
	for i, kind := range []string{Ordinary, Ordinary, NoCarrier, Tunnel, HostOnly, Loopback, Ordinary, Ordinary} {
		own = append(own, Candidate{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), Kind: kind})
	}
	own = append(own, Candidate{Addr: addr("fe80::1"), Kind: Ordinary})
	require.Equal(t, []netip.Addr{own[1].Addr, own[2].Addr, own[3].Addr, own[6].Addr},
		Alternates(own, []netip.Addr{own[0].Addr}))
}
