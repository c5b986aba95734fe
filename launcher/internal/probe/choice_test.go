package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// port is an interface of a made-up host.
type port struct {
	Candidate
	network string // that it is plugged into, "" for none
}

// made is a made-up set of hosts.
type made struct {
	hosts   [][]port
	deaf    map[string]bool // "HOST ADDRESS": packets from the host, or "all", to the address vanish
	options Options
	slow    map[string]time.Duration // networks with a round trip that is not 200 µs
}

// makeHosts reads lines as testdata/choice.txtar explains them.
func makeHosts(text string) made {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	count, _, _ := strings.Cut(lines[0], " ")
	n, _ := strconv.Atoi(count)
	m := made{hosts: make([][]port, n), deaf: map[string]bool{}, slow: map[string]time.Duration{}}
	for _, line := range lines[1:] {
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "slow":
			network, took, _ := strings.Cut(rest, " ")
			m.slow[network], _ = time.ParseDuration(took)
		case "deaf":
			m.deaf[rest] = true
		case "prefer":
			m.options.PreferIPv6 = true
		case "source":
			m.options.Source = rest
		default:
			for i := range m.hosts {
				host := strconv.Itoa(i + 1)
				if !strings.Contains(line, "@") || slices.Contains(strings.Fields(line), "@"+host) {
					m.hosts[i] = append(m.hosts[i], parsePort(strings.Fields(strings.ReplaceAll(line, "#", host))))
				}
			}
		}
	}
	return m
}

func parsePort(words []string) port {
	prefix := netip.MustParsePrefix(words[1])
	p := port{Candidate: Candidate{Interface: words[0], Addr: prefix.Addr(), Bits: prefix.Bits(), Kind: words[2]}}
	for _, word := range words[3:] {
		if mbps, err := strconv.Atoi(word); err == nil {
			p.Mbps = mbps
		} else if word == "named" {
			p.Named = true
		} else if word[0] != '@' {
			p.network = word
		}
	}
	return p
}

// nodes lets every node dial what the head would have it dial.
func (m made) nodes() []Node {
	nodes := make([]Node, len(m.hosts))
	for i, ports := range m.hosts {
		nodes[i] = Node{Name: fmt.Sprintf("node%d", i), Port: 1000 + i}
		for _, p := range ports {
			nodes[i].Candidates = append(nodes[i].Candidates, p.Candidate)
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
		if own.Addr == addr { // its own docker0
			return Result{Problem: refused}
		}
	}
	if m.deaf[fmt.Sprint(from+1, " ", addr)] || m.deaf["all "+addr.String()] {
		return Result{Problem: noAnswer}
	}
	for _, theirs := range m.hosts[to] {
		if theirs.Addr != addr || theirs.network == "" {
			continue
		}
		for _, own := range m.hosts[from] {
			if own.network == theirs.network {
				rtt := cmp.Or(m.slow[own.network], 200*time.Microsecond)
				return Result{RTT: rtt, Local: own.Addr, Interface: own.Interface}
			}
		}
	}
	return Result{Problem: noAnswer}
}

func TestChoose(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/choice.txtar")
	require.NoError(t, err)
	for _, test := range archive.Files {
		t.Run(test.Name, func(t *testing.T) {
			text, want, _ := strings.Cut(string(test.Data), "\n\n")
			m := makeHosts(text)
			choice, err := Choose(m.nodes(), m.options)
			require.NoError(t, err)
			require.Len(t, choice.Endpoints, len(m.hosts))
			var interfaces []string
			for _, p := range choice.Endpoints {
				interfaces = append(interfaces, p.Interface)
			}
			got := fmt.Sprintf("%s over %s\n", choice.Addr, strings.Join(slices.Compact(interfaces), " "))
			if choice.Warning != "" {
				_, gaps, _ := strings.Cut(choice.Warning, "all nodes reach node0, but ")
				gaps, _, _ = strings.Cut(gaps, ": ranks")
				got += gaps + "\n"
			}
			require.Equal(t, want, got)
			require.Equal(t, choice.Addr, choice.Endpoints[0].Addr)
			require.Contains(t, choice.Reason, choice.Addr.WithZone("").String())
		})
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestReason(t *testing.T) {
	m := makeHosts("4 hosts\neth0 10.0.0.#/24 ordinary lan\nslow lan 3500µs")
	choice, err := Choose(m.nodes(), Options{})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1 (eth0) of node0: the other 3 nodes reach it within 4ms", choice.Reason)
}

func TestNobodyReachesAll(t *testing.T) {
	m := makeHosts(`4 hosts
eth0 10.0.0.#/24 ordinary lan 1000 @1 @2
docker0 172.17.0.1/16 host-only
eth1 10.2.0.#/24 ordinary side @1 @3
eth0 10.7.0.4/24 ordinary elsewhere @4`)
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
	m := makeHosts(`2 hosts
eth0 10.0.0.#/24 ordinary lan
eth1 10.2.0.1/24 ordinary side named @1
source --master-addr 10.2.0.1`)
	_, err := Choose(m.nodes(), m.options)
	require.EqualError(t, err,
		"some nodes cannot reach node0 at --master-addr 10.2.0.1:\n  10.2.0.1 (eth1)              no answer from node1")
	var unreached *UnreachedError
	require.ErrorAs(t, err, &unreached)
	require.Contains(t, unreached.Hint(), "leave --master-addr 10.2.0.1 out")
}

// The message stays short whatever there is.
func TestManyAddressesOfManyNodes(t *testing.T) {
	text := "300 hosts"
	for k := range 40 {
		text += fmt.Sprintf("\neth%d fd00:%d::#/64 ordinary", k, k)
	}
	m := makeHosts(text)
	_, err := Choose(m.nodes(), Options{})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 1500)
	require.Contains(t, err.Error(), "and 34 more addresses")
	require.Contains(t, err.Error(), "no answer from node[1-299]")
}

func TestFirstTryIsSmall(t *testing.T) {
	many := func(n int) []Node {
		text := fmt.Sprint(n, " hosts\ndocker0 172.17.0.1/16 host-only")
		for k := range 9 {
			text += fmt.Sprintf("\nrail%d fd00:%d::#/64 ordinary rails%d", k, k, k)
		}
		return makeHosts(text).nodes()
	}
	require.Len(t, many(4)[1].Reached, 3)
	require.Len(t, many(1200)[1].Reached, 1)
}

// What a firewall lets pass at the port that the user named says nothing of others.
func TestOnlyTheMasterPortPasses(t *testing.T) {
	m := makeHosts("3 hosts\neth0 10.0.0.#/24 ordinary lan")
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
	choice, err := Choose(makeHosts(`2 hosts
eth0 10.0.0.#/24 ordinary
eth0 fd00::#/64 ordinary lan 1000
docker0 172.17.0.1/16 host-only
ib0 fe80::1/64 ordinary
lo 127.0.0.1/8 loopback`).nodes(), Options{})
	require.NoError(t, err)
	require.Equal(t, "fd00::1", choice.Addr.String())
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
