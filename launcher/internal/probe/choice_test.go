package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// port is an interface of a made-up host: it is plugged into a network ("" for none)
// and has an address there.
type port struct {
	name, network, addr string
	kind                string
	mbps                int
	named               bool
}

// made is what a made-up set of hosts is.
type made struct {
	hosts [][]port
	// deaf says that packets from one host to an address of another vanish.
	deaf    func(from int, to netip.Addr) bool
	options Options
	slow    map[string]time.Duration // networks with a round trip that is not 200 µs
}

// nodes lets every node dial what the head would have it dial.
func (m made) nodes() []Node {
	nodes := make([]Node, len(m.hosts))
	for i, ports := range m.hosts {
		nodes[i] = Node{Name: fmt.Sprintf("node%d", i), Port: 1000 + i}
		for _, p := range ports {
			prefix := netip.MustParsePrefix(p.addr)
			nodes[i].Candidates = append(nodes[i].Candidates, Candidate{
				Addr: prefix.Addr(), Bits: prefix.Bits(), Interface: p.name,
				Kind: p.kind, Mbps: p.mbps, Named: p.named,
			})
		}
		Sort(nodes[i].Candidates, false)
	}
	order := Order(nodes, m.options)
	for count := FirstTry(nodes, order); ; count = len(order) {
		for i := range nodes[1:] {
			nodes[1+i].Reached = map[int]Result{}
			for _, index := range order[:count] {
				a := m.dial(1+i, 0, nodes[0].Candidates[index].Addr)
				nodes[1+i].Reached[index] = a
			}
		}
		if len(Agreed(nodes, m.options)) > 0 || count == len(order) {
			break
		}
	}
	agreed := Agreed(nodes, m.options)
	for i := range nodes {
		nodes[i].Peers = map[Target]Result{}
		for _, target := range PeerTargets(nodes, agreed, i) {
			nodes[i].Peers[target] = m.dial(i, target.Node, target.Addr)
		}
	}
	return nodes
}

// dial goes by the first interface that is plugged into a network in which the other
// host has the address.
func (m made) dial(from, to int, addr netip.Addr) Result {
	for _, own := range m.hosts[from] {
		if netip.MustParsePrefix(own.addr).Addr() == addr { // its own docker0
			return Result{Problem: refused}
		}
	}
	if m.deaf != nil && m.deaf(from, addr) {
		return Result{Problem: noAnswer}
	}
	for _, theirs := range m.hosts[to] {
		if netip.MustParsePrefix(theirs.addr).Addr() != addr || theirs.network == "" {
			continue
		}
		for _, own := range m.hosts[from] {
			if own.network == theirs.network {
				rtt := 200 * time.Microsecond
				if m.slow[own.network] > 0 {
					rtt = m.slow[own.network]
				}
				return Result{RTT: rtt, Local: netip.MustParsePrefix(own.addr).Addr(), Interface: own.name}
			}
		}
	}
	return Result{Problem: noAnswer}
}

func lan(name string, i int) port {
	return port{name: name, network: "lan", addr: fmt.Sprintf("10.0.0.%d/24", i+1), kind: Ordinary, mbps: 1000}
}

func docker() port {
	return port{name: "docker0", addr: "172.17.0.1/16", kind: HostOnly, network: ""}
}

// hosts makes n hosts.
func madeHosts(n int, ports func(i int) []port) (all [][]port) {
	for i := range n {
		all = append(all, ports(i))
	}
	return all
}

func TestChoose(t *testing.T) {
	for name, row := range map[string]struct {
		made       made
		addr       string
		interfaces []string
		warning    string
	}{
		"one network": {
			made: made{hosts: madeHosts(3, func(i int) []port { return []port{lan("eth0", i)} })},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"names differ per host": {
			made: made{hosts: madeHosts(3, func(i int) []port { return []port{lan(fmt.Sprintf("enp%ds0", i), i)} })},
			addr: "10.0.0.1", interfaces: []string{"enp0s0", "enp1s0", "enp2s0"},
		},
		"docker0 on every host": {
			made: made{hosts: madeHosts(3, func(i int) []port { return []port{docker(), lan("eth0", i)} })},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"a bridge with the same address everywhere and an innocent name": {
			made: made{hosts: madeHosts(3, func(i int) []port {
				return []port{{name: "lanbr", addr: "192.168.122.1/24", kind: Ordinary, mbps: 100000}, lan("eth0", i)}
			})},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"a VPN that works is second": {
			made: made{hosts: madeHosts(3, func(i int) []port {
				return []port{{name: "wg0", network: "vpn", addr: fmt.Sprintf("10.9.0.%d/24", i+1), kind: Tunnel}, lan("eth0", i)}
			})},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"a VPN is all that leads there": {
			made: made{hosts: madeHosts(2, func(i int) []port {
				return []port{
					{name: "wg0", network: "vpn", addr: fmt.Sprintf("10.9.0.%d/24", i+1), kind: Tunnel},
					{name: "eth0", network: fmt.Sprint("home", i), addr: fmt.Sprintf("192.168.%d.7/24", i), kind: Ordinary},
				}
			})},
			addr: "10.9.0.1", interfaces: []string{"wg0", "wg0"},
		},
		"the faster of two networks": {
			made: made{hosts: madeHosts(3, func(i int) []port {
				return []port{lan("eth0", i), {
					name: "ib0", network: "ib", addr: fmt.Sprintf("10.1.0.%d/24", i+1),
					kind: Ordinary, mbps: 100000,
				}}
			})},
			addr: "10.1.0.1", interfaces: []string{"ib0", "ib0", "ib0"},
		},
		"the nearer of two networks": {
			made: made{
				slow: map[string]time.Duration{"far": 40 * time.Millisecond},
				hosts: madeHosts(3, func(i int) []port {
					return []port{lan("eth0", i), {
						name: "eth1", network: "far", addr: fmt.Sprintf("10.1.0.%d/24", i+1),
						kind: Ordinary, mbps: 100000,
					}}
				}),
			},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"one host is not in the faster network": {
			made: made{hosts: madeHosts(3, func(i int) []port {
				fast := port{name: "ib0", network: "ib", addr: fmt.Sprintf("10.1.0.%d/24", i+1), kind: Ordinary, mbps: 100000}
				if i == 2 {
					fast.network = ""
				}
				return []port{fast, lan("eth0", i)}
			})},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"a network that leads to node 0 alone is not taken": {
			made: made{
				deaf: func(from int, to netip.Addr) bool { return from > 0 && to != addr("10.1.0.1") && to.As4()[1] == 1 },
				hosts: madeHosts(3, func(i int) []port {
					return []port{{
						name: "eth1", network: "star", addr: fmt.Sprintf("10.1.0.%d/24", i+1), kind: Ordinary,
						mbps: 100000,
					}, lan("eth0", i)}
				}),
			},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
		},
		"nothing else leads there": {
			made: made{
				deaf:  func(from int, to netip.Addr) bool { return from == 1 && to == addr("10.0.0.3") },
				hosts: madeHosts(3, func(i int) []port { return []port{lan("eth0", i)} }),
			},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0"},
			warning: "node1 does not reach node2 at 10.0.0.3 (no answer; the reverse works)",
		},
		"one that nobody else can connect to": {
			made: made{
				deaf:  func(_ int, to netip.Addr) bool { return to == addr("10.0.0.4") },
				hosts: madeHosts(5, func(i int) []port { return []port{lan("eth0", i)} }),
			},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0", "eth0", "eth0", "eth0"},
			warning: "node0 does not reach node3 at 10.0.0.4 (no answer; the reverse works), node1 does not reach " +
				"node3 at 10.0.0.4 (no answer; the reverse works), node2 does not reach node3 at 10.0.0.4 (no " +
				"answer; the reverse works), and one more such pair",
		},
		"far apart in a ring": {
			made: made{
				deaf:  func(from int, to netip.Addr) bool { return from == 3 && to == addr("10.0.0.12") },
				hosts: madeHosts(16, func(i int) []port { return []port{lan("eth0", i)} }),
			},
			addr: "10.0.0.1", interfaces: slices.Repeat([]string{"eth0"}, 16),
			warning: "node3 does not reach node11 at 10.0.0.12 (no answer; the reverse works)",
		},
		"IPv6 alone": {
			made: made{hosts: madeHosts(2, func(i int) []port {
				return []port{{name: "eth0", network: "six", addr: fmt.Sprintf("2001:db8::%d/64", i+1), kind: Ordinary}}
			})},
			addr: "2001:db8::1", interfaces: []string{"eth0", "eth0"},
		},
		"both families": {
			made: made{hosts: madeHosts(2, func(i int) []port {
				return []port{
					{name: "eth0", network: "lan", addr: fmt.Sprintf("2001:db8::%d/64", i+1), kind: Ordinary},
					lan("eth0", i),
				}
			})},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth0"},
		},
		"both families, the nodes were named by IPv6 addresses": {
			made: made{options: Options{PreferIPv6: true}, hosts: madeHosts(2, func(i int) []port {
				return []port{lan("eth0", i), {
					name: "eth0", network: "six", addr: fmt.Sprintf("2001:db8::%d/64", i+1),
					kind: Ordinary,
				}}
			})},
			addr: "2001:db8::1", interfaces: []string{"eth0", "eth0"},
		},
		"IPv6 of the link alone": {
			made: made{hosts: madeHosts(2, func(i int) []port {
				return []port{{name: "eth0", network: "link", addr: fmt.Sprintf("fe80::%d/64", i+1), kind: Ordinary}}
			})},
			addr: "fe80::1%eth0", interfaces: []string{"eth0", "eth0"},
		},
		"the user's address overrides all others": {
			made: made{options: Options{Source: "--master-addr 10.9.0.1"}, hosts: madeHosts(2, func(i int) []port {
				return []port{
					{name: "wg0", network: "vpn", addr: fmt.Sprintf("10.9.0.%d/24", i+1), kind: Tunnel, named: i == 0},
					lan("eth0", i),
				}
			})},
			addr: "10.9.0.1", interfaces: []string{"wg0", "wg0"},
		},
		"the user named another node's address": {
			made: made{hosts: madeHosts(3, func(i int) []port {
				return []port{{
					name: "eth1", network: "two", addr: fmt.Sprintf("10.2.0.%d/24", i+1), kind: Ordinary,
					named: i == 1,
				}, lan("eth0", i)}
			})},
			addr: "10.0.0.1", interfaces: []string{"eth0", "eth1", "eth0"},
		},
		"all nodes on one host without a network": {
			made: made{hosts: madeHosts(2, func(i int) []port {
				return []port{{name: "lo", network: "lo", addr: fmt.Sprintf("127.0.0.%d/8", i+1), kind: Loopback}}
			})},
			addr: "127.0.0.1", interfaces: []string{"lo", "lo"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := row.made.nodes()
			choice, err := Choose(nodes, row.made.options)
			require.NoError(t, err)
			require.Equal(t, row.addr, choice.Addr.String())
			var interfaces []string
			for _, p := range choice.Endpoints {
				interfaces = append(interfaces, p.Interface)
			}
			require.Equal(t, row.interfaces, interfaces)
			require.Equal(t, choice.Addr, choice.Endpoints[0].Addr)
			require.Contains(t, choice.Reason, choice.Addr.WithZone("").String())
			if row.warning == "" {
				require.Empty(t, choice.Warning)
			}
			require.Contains(t, choice.Warning, row.warning)
		})
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestReason(t *testing.T) {
	m := made{hosts: madeHosts(4, func(i int) []port {
		return []port{lan("eth0", i)}
	}), slow: map[string]time.Duration{"lan": 3500 * time.Microsecond}}
	choice, err := Choose(m.nodes(), Options{})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1 (eth0) of node0: the other 3 nodes reach it within 4ms", choice.Reason)
}

func TestNobodyReachesAll(t *testing.T) {
	m := made{hosts: [][]port{
		{lan("eth0", 0), docker(), {name: "eth1", network: "side", addr: "10.2.0.1/24", kind: Ordinary}},
		{lan("eth0", 1), docker()},
		{docker(), {name: "eth1", network: "side", addr: "10.2.0.3/24", kind: Ordinary}},
		{docker(), {name: "eth0", network: "elsewhere", addr: "10.7.0.4/24", kind: Ordinary}},
	}}
	_, err := Choose(m.nodes(), Options{})
	var unreached *UnreachedError
	require.ErrorAs(t, err, &unreached)
	require.Equal(t, `no address of node0 is reachable from all nodes:
  10.0.0.1 (eth0)              reached from node1; no answer from node[2-3]
  10.2.0.1 (eth1)              reached from node2; no answer from node[1,3]
  172.17.0.1 (docker0)         refused from node[1-3]
node3 cannot reach any of them`, err.Error())
	require.Contains(t, unreached.Hint(), "--master-addr")
}

func TestTheUsersAddressIsNotReached(t *testing.T) {
	options := Options{Source: "--master-addr 10.2.0.1"}
	m := made{options: options, hosts: [][]port{
		{lan("eth0", 0), {name: "eth1", network: "side", addr: "10.2.0.1/24", kind: Ordinary, named: true}},
		{lan("eth0", 1)},
	}}
	_, err := Choose(m.nodes(), options)
	require.EqualError(t, err,
		"some nodes cannot reach node0 at --master-addr 10.2.0.1:\n  10.2.0.1 (eth1)              no answer from node1")
	var unreached *UnreachedError
	require.ErrorAs(t, err, &unreached)
	require.Contains(t, unreached.Hint(), "leave --master-addr 10.2.0.1 out")
}

// The message stays short whatever there is.
func TestManyAddressesOfManyNodes(t *testing.T) {
	m := made{hosts: madeHosts(300, func(i int) (all []port) {
		for k := range 40 {
			all = append(all, port{
				name: fmt.Sprintf("eth%d", k), addr: fmt.Sprintf("10.%d.%d.%d/16", k, i/200, i%200+1),
				kind: Ordinary,
			})
		}
		return all
	})}
	_, err := Choose(m.nodes(), Options{})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 1500)
	require.Contains(t, err.Error(), "and 34 more addresses")
	require.Contains(t, err.Error(), "no answer from node[1-299]")
}

func TestFirstTryIsSmall(t *testing.T) {
	many := func(n int) []Node {
		return made{hosts: madeHosts(n, func(i int) (all []port) {
			for k := range 9 {
				all = append(all, port{
					name: fmt.Sprintf("rail%d", k), network: fmt.Sprint(k),
					addr: fmt.Sprintf("10.%d.%d.%d/16", k, i/200, i%200+1), kind: Ordinary,
				})
			}
			return append(all, docker())
		})}.nodes()
	}
	require.Len(t, many(4)[1].Reached, 3)
	require.Len(t, many(1200)[1].Reached, 1)
}

// What a firewall lets pass at the port that the user named says nothing of others.
func TestOnlyTheMasterPortPasses(t *testing.T) {
	m := made{hosts: madeHosts(3, func(i int) []port { return []port{lan("eth0", i)} })}
	nodes := m.nodes()
	nodes[0].Free = 41234
	for i := range nodes {
		nodes[i].Peers = map[Target]Result{}
		for _, target := range PeerTargets(nodes, []int{0}, i) {
			a := m.dial(i, target.Node, target.Addr)
			if target.Node == 0 {
				require.Equal(t, 41234, target.Port)
				a = Result{Problem: noAnswer}
			}
			nodes[i].Peers[target] = a
		}
	}
	choice, err := Choose(nodes, m.options)
	require.NoError(t, err)
	require.Contains(t, choice.Warning,
		"but node1 does not reach node0 at 10.0.0.1 (no answer at port 41234, only at 1000), node2 does not reach node0")
}

// A place says what a library that looks by itself may take in its stead.
func TestPlace(t *testing.T) {
	nodes := made{hosts: madeHosts(2, func(i int) []port {
		return []port{
			{name: "eth0", addr: fmt.Sprintf("10.0.0.%d/24", i+1)},
			{name: "eth0", network: "lan", addr: fmt.Sprintf("fd00::%d/64", i+1), mbps: 1000},
			docker(),
			{name: "ib0", addr: "fe80::1/64"},
			{name: "lo", addr: "127.0.0.1/8", kind: Loopback},
		}
	})}.nodes()
	choice, err := Choose(nodes, Options{})
	require.NoError(t, err)
	require.Equal(t, addr("fd00::1"), choice.Addr)
	require.Contains(t, choice.Note, "the interfaces of node[0-1] also have IPv4 addresses")
	for _, p := range choice.Endpoints {
		require.Equal(t, []string{"docker0"}, p.Others)
		require.True(t, p.OtherFamily)
	}
}

// Of many nodes each dials few, and is dialed by as many others, near and far.
func TestPeersAreFew(t *testing.T) {
	for n, most := range map[int]int{2: 1, 8: 7, 9: 2, 64: 2, 256: 2, 257: 1, 1000: 1} {
		nodes, dialed := make([]Node, n), make([]int, n)
		for node := range nodes {
			all := peers(nodes, node)
			require.LessOrEqual(t, len(all), most)
			for _, peer := range all {
				require.NotEqual(t, node, peer)
				dialed[peer]++
			}
		}
		for node, times := range dialed[1:] { // node 0 was dialed by all before
			require.Equal(t, min(most, n-1), times, "node %d of %d", 1+node, n)
		}
	}
}
