package probe

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestKinds(t *testing.T) {
	for _, row := range []struct {
		facts facts
		kind  string
	}{
		{facts{name: "lo", loopback: true, running: true}, Loopback},
		{facts{name: "eth0", running: true, hardware: true}, Ordinary},
		{facts{name: "eth0", running: true}, Ordinary}, // a container's
		{facts{name: "eth1", hardware: true}, NoCarrier},
		{facts{name: "bond0", running: true, hardware: true}, Ordinary},
		{facts{name: "docker0", running: true, bridge: true}, HostOnly},
		{facts{name: "docker0"}, HostOnly},
		{facts{name: "br-1f2e3d", running: true, bridge: true}, HostOnly},
		{facts{name: "br-lan", running: true, bridge: true, hardware: true}, Ordinary},
		{facts{name: "virbr0", running: true}, HostOnly},
		{facts{name: "mybridge", running: true, bridge: true}, HostOnly},
		{facts{name: "wg0", running: true, tunnel: true, pointToPoint: true}, Tunnel},
		{facts{name: "office", running: true, tunnel: true}, Tunnel},
		{facts{name: "tailscale0", running: true}, Tunnel},
	} {
		require.Equal(t, row.kind, row.facts.kind(), "%+v", row.facts)
	}
}

func TestHardwareBelow(t *testing.T) {
	link := func(path string) string { return "sys/class/net/" + path }
	root := fstest.MapFS{
		link("eth0/device"):        {Mode: os.ModeDir},
		link("bond0/lower_eth0"):   {},
		link("vlan7/lower_bond0"):  {},
		link("virbr0/lower_vnet0"): {},
		link("vnet0/type"):         {Data: []byte("1\n")},
		link("loop0/lower_loop0"):  {},
	}
	for name, want := range map[string]bool{
		"eth0": true, "bond0": true, "vlan7": true, "virbr0": false, "loop0": false,
		"gone": false,
	} {
		require.Equal(t, want, hardware(root, link(name), maxLayers), name)
	}
	require.Equal(t, 1, number(root, link("vnet0/type")))
}

// What this host has is at least a loopback.
func TestCandidatesOfThisHost(t *testing.T) {
	all, err := Candidates(os.DirFS("/"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.Contains(t, all, Candidate{
		Addr: netip.MustParseAddr("127.0.0.1"), Bits: 8, Interface: "lo", Kind: Loopback,
		MTU: 65536,
	})
	for _, c := range all {
		require.True(t, c.Addr.IsValid())
		require.Empty(t, c.Addr.Zone())
		require.NotEmpty(t, c.Interface)
	}
}

func TestMarkNamed(t *testing.T) {
	own := []Candidate{
		{Addr: addr("10.0.0.1"), Interface: "eth0", Kind: Ordinary},
		{Addr: addr("fe80::1"), Interface: "eth0", Kind: Ordinary},
		{Addr: addr("127.0.0.1"), Interface: "lo", Kind: Loopback},
	}
	named := func(all []Candidate) (texts []string) {
		for _, c := range all {
			if c.Named {
				texts = append(texts, c.String())
			}
		}
		return texts
	}
	for _, row := range []struct {
		name  string
		addrs []string
		named []string
		note  string
		err   string
	}{
		{name: "10.0.0.1", addrs: []string{"10.0.0.1"}, named: []string{"10.0.0.1 (eth0)"}},
		{name: "node0", addrs: []string{"::ffff:10.0.0.1"}, named: []string{"10.0.0.1 (eth0)"}},
		{name: "fe80::1%eth0", addrs: []string{"fe80::1%eth0"}, named: []string{"fe80::1 (eth0)"}},
		{name: "fe80::1%eth7", addrs: []string{"fe80::1%eth7"}, err: "not an address of the host"},
		{name: "node0", addrs: []string{"127.0.1.1"}, note: "node0 resolves to 127.0.1.1 there, which no other host reaches"},
		{name: "node0", addrs: []string{"127.0.1.1", "10.0.0.1"}, named: []string{"10.0.0.1 (eth0)"}},
		{name: "localhost", addrs: []string{"127.0.0.1"}, named: []string{"127.0.0.1 (lo)"}},
		{name: "127.0.0.5", addrs: []string{"127.0.0.5"}, named: []string{"127.0.0.5 (lo)"}},
		{
			name: "node9", addrs: []string{"10.0.0.9"},
			err: "node9 (10.0.0.9) is not an address of the host; it has 10.0.0.1 (eth0), fe80::1 (eth0)",
		},
		{name: "10.0.0.9", addrs: []string{"10.0.0.9"}, err: "10.0.0.9 is not an address of the host"},
	} {
		var addrs []netip.Addr
		for _, text := range row.addrs {
			addrs = append(addrs, addr(text))
		}
		marked, note, err := mark(own, row.name, addrs)
		if row.err != "" {
			require.ErrorContains(t, err, row.err, row.name)
			continue
		}
		require.NoError(t, err, row.name)
		require.Equal(t, row.named, named(marked), row.name)
		require.Contains(t, note, row.note)
		require.Equal(t, row.note == "", note == "", row.name)
	}
	_, _, err := MarkNamed(context.Background(), own, "[10.0.0.9]")
	require.ErrorContains(t, err, "[10.0.0.9] is not an address of the host")
}
