package join

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sort"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestNumberingIsTheSameInAnyOrder(t *testing.T) {
	member := func(rank int, id, host, addr, peer string) *Member {
		return &Member{Hello: Hello{NodeRank: rank, NodeID: id, Host: host, Addr: addr}, Peer: netip.MustParseAddrPort(peer)}
	}
	r := testneeds.Rand(t)
	for name, row := range map[string]struct{ in, want []*Member }{
		"ids": {
			want: []*Member{
				member(-1, "2", "z", "", "1.1.1.1:9"), member(-1, "10", "a", "", "1.1.1.1:8"),
				member(-1, "10", "b", "", "1.1.1.1:7"),
			},
		},
		"hosts": {
			want: []*Member{
				member(-1, "5", "node2", "", "1.1.1.1:9"), member(-1, "", "node10", "", "1.1.1.1:8"),
				member(-1, "1", "node10", "", "1.1.1.2:7"),
			},
		},
		"addrs": {want: []*Member{member(-1, "", "h", "a2", "2.1.1.1:9"), member(-1, "", "h", "a10", "1.1.1.1:8")}},
		"mixed": {
			want: []*Member{
				member(-1, "", "a", "", "1.1.1.1:9"), member(2, "", "a", "", "1.1.1.1:8"),
				member(-1, "", "b", "", "1.1.1.1:7"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				var in []*Member
				for _, i := range r.Perm(len(row.want)) {
					m := *row.want[i]
					in = append(in, &m)
				}
				numberNodes(in, len(in)+1)
				for i, m := range in {
					want := row.want[i].Hello
					want.NodeRank = i + 1
					require.Equal(t, want, m.Hello)
				}
			}
		})
	}
}

func TestNatural(t *testing.T) {
	want := []string{"", "a", "a1", "a01", "a2", "a10", "a10b", "a99999999999999999999999", "b", "node2x", "node10x"}
	got := append([]string{}, want...)
	r := testneeds.Rand(t)
	r.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	sort.Slice(got, func(i, j int) bool { return compareNatural(got[i], got[j]) < 0 })
	require.ElementsMatch(t, want, got)
	require.Less(t, compareNatural("a2", "a10"), 0)
	require.Less(t, compareNatural("node2x", "node10x"), 0)
	require.NotZero(t, compareNatural("a1", "a01"))
	require.Equal(t, compareNatural("a1", "a01"), -compareNatural("a01", "a1"))
}

// Attempts start 50 ms apart at first and 1 s apart at the end. One line reports them.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		cfg := settings(1, 2, 1, nil)
		cfg.Timeout, cfg.Notify = 20*time.Second, log.tell
		cfg, err := cfg.complete()
		require.NoError(t, err)
		var at []time.Time
		d := &dialer{cfg: cfg, dial: func(context.Context, string, string) (net.Conn, error) {
			at = append(at, time.Now())
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}}
		begun := time.Now()
		_, err = d.join(t.Context())
		require.ErrorContains(t, err, "did not accept this node within 20s: connection refused")
		require.Equal(t, 20*time.Second, time.Since(begun))
		for i := 1; i < len(at); i++ {
			most := min(firstPause<<min(i-1, 10), maxPause)
			gap := at[i].Sub(at[i-1])
			require.LessOrEqual(t, gap, most)
			require.GreaterOrEqual(t, gap, most/2)
		}
		require.Len(t, log.lines, 1)
	})
}

// A name that cannot be resolved now may be resolved later.
func TestNameThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := settings(1, 2, 1, nil)
		cfg.Addr, cfg.Insecure = "job-0.svc", true
		cfg, err := cfg.complete()
		require.NoError(t, err)
		tries := 0
		d := &dialer{cfg: cfg, dial: func(_ context.Context, _, address string) (net.Conn, error) {
			require.Equal(t, "job-0.svc:1", address)
			if tries++; tries < 5 {
				return nil, &net.DNSError{Err: "no such host", Name: "job-0.svc", IsNotFound: true}
			}
			node, head := net.Pipe()
			go func() {
				_ = readMessage(head, &Hello{})
				_ = writeMessage(head, &Welcome{NodeRank: 1})
			}()
			return node, nil
		}}
		joined, err := d.join(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, joined.NodeRank)
		joined.Conn.Close()
	})
}

// The name of an existing host should resolve: the wait is short, and only covers a temporary failure of the
// resolver.
func TestNameThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := settings(1, 2, 1, nil)
		cfg.Addr, cfg.HostsExist, cfg.Timeout = "n1", true, 15*time.Minute
		cfg.AddrOption = "--rdzv-endpoint ADDR:1"
		notices := make(chan string, 9)
		cfg.Notify = func(text string) { notices <- text }
		cfg, err := cfg.complete()
		require.NoError(t, err)
		begun := time.Now()
		d := &dialer{cfg: cfg, dial: func(context.Context, string, string) (net.Conn, error) {
			if since := time.Since(begun); since > 20*time.Second && since < 40*time.Second {
				return nil, &net.DNSError{Err: "server misbehaving", Name: "n1", IsTemporary: true}
			}
			return nil, &net.DNSError{Err: "no such host", Name: "n1", IsNotFound: true}
		}}
		_, err = d.join(t.Context())
		require.EqualError(t, err,
			"cannot resolve node 0's name n1 for 30s; name its address with "+cfg.AddrOption)
		require.Equal(t, "waiting for node 0 at n1:1, up to 30s (cannot resolve host name n1)", <-notices)
		require.InDelta(t, 71*time.Second, time.Since(begun), float64(3*time.Second))
	})
}

func TestIsEndpointHere(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.3.4.5": true, "localhost": true, "192.0.2.1": false,
		"2001:db8::1": false,
	} {
		here, err := IsEndpointHere(t.Context(), addr)
		require.NoError(t, err)
		require.Equal(t, want, here, addr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := IsEndpointHere(ctx, "nobody.invalid")
	require.Error(t, err)
	require.ErrorContains(t, err, "nobody.invalid")
	require.False(t, errors.Is(err, os.ErrNotExist))
	require.False(t, isHere(netip.MustParseAddr("192.0.2.1")))
	require.True(t, isHere(netip.MustParseAddr("127.0.0.1")))
}

func TestSettingsThatCannotBe(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"node rank 2, but the job has 2 nodes": func(c *Config) { c.Self.NodeRank = 2 },
		"node_rank is -2":                      func(c *Config) { c.Self.NodeRank = -2 },
		"nnodes is 0":                          func(c *Config) { c.Self.NumNodes = 0 },
		"port 70000":                           func(c *Config) { c.Port = 70000 },
		"id has 300 bytes":                     func(c *Config) { c.Self.ID = string(make([]byte, 300)) },
	} {
		cfg := settings(1, 2, 1, nil)
		change(&cfg)
		_, err := Dial(t.Context(), cfg)
		require.ErrorContains(t, err, says)
	}
}
