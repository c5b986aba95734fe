package probe

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/doctor"
)

// surveyed is a healthy network of n nodes, all ways measured.
func surveyed(n int) *Survey {
	s := &Survey{}
	for i := range n {
		a := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i+1))
		s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("n%d", i+1), Candidates: []Candidate{
			{Addr: a, Bits: 24, Interface: "eth0", Kind: Ordinary, Mbps: 10_000, MTU: 1500, Device: true},
		}})
		s.Endpoints = append(s.Endpoints,
			Endpoint{Addr: a, Interface: "eth0", Kind: Ordinary, Mbps: 10_000, Device: true})
	}
	for from := range n {
		for to := range n {
			if from != to {
				s.Paths = append(s.Paths, &Path{
					Pair: Pair{from, to}, Addr: s.Endpoints[to].Addr, Port: 4000 + to,
					Result: Result{RTT: 100 * time.Microsecond, Interface: "eth0"},
					Measured: &Measured{
						RTT: 90 * time.Microsecond, Segments: 384, Bytes: 100 << 20, Time: 90 * time.Millisecond,
						FlowSegments: 70_000, FlowResent: 900, Packet: 1500,
					},
				})
			}
		}
	}
	return s
}

// way is the one between two nodes, numbered from 1.
func (s *Survey) way(from, to int) *Path {
	for _, w := range s.Paths {
		if w.Pair == (Pair{from - 1, to - 1}) {
			return w
		}
	}
	return nil
}

func (w *Path) fails(problem, knock string) {
	w.Result, w.OtherPorts, w.Measured = Result{Problem: problem}, knock, nil
}

// aside adds an attempt to reach another address of a node.
func (s *Survey) aside(from, to int, c Candidate, a Result) {
	s.Nodes[to-1].Candidates = append(s.Nodes[to-1].Candidates, c)
	s.Paths = append(s.Paths, &Path{Pair: Pair{from - 1, to - 1}, Addr: c.Addr, Alternate: true, Result: a})
}

func TestFlaws(t *testing.T) {
	each := func(s *Survey, do func(w *Path)) {
		for _, w := range s.Paths {
			do(w)
		}
	}
	for name, row := range map[string]struct {
		nodes int
		harm  func(s *Survey)
		want  []string
	}{
		"all is well":        {5, func(*Survey) {}, nil},
		"one host":           {1, func(*Survey) {}, nil},
		"nothing was tried":  {3, func(s *Survey) { s.Paths = nil }, nil},
		"nothing was chosen": {2, func(s *Survey) { s.Endpoints = make([]Endpoint, 2) }, nil},
		"one way": {3, func(s *Survey) { s.way(1, 3).fails(noAnswer, PortsFiltered) }, []string{
			"unreachable n1: by eth0 (10.0.0.1) it cannot reach n3 at 10.0.0.3 (eth0) by TCP: no answer, nor at other " +
				"ports: there is no route, or a firewall drops everything; the reverse works",
		}},
		"two hosts, and both ways": {2, func(s *Survey) {
			s.way(1, 2).fails(noRoute, PortsFiltered)
			s.way(2, 1).fails(unreachable, PortsFiltered)
		}, []string{
			"unreachable n1: by eth0 (10.0.0.1) it cannot reach n2 at 10.0.0.2 (eth0) by TCP: no route",
			"unreachable n2: by eth0 (10.0.0.2) it cannot reach n1 at 10.0.0.1 (eth0) by TCP: unreachable: a router or " +
				"firewall reports it, or no host in its network has the address",
		}},
		"a host of which some ports are open": {4, func(s *Survey) {
			for from := range 3 {
				s.way(from+1, 4).fails(noAnswer, PortsOpen)
			}
		}, []string{
			"unreachable n4: no other host reaches it at 10.0.0.4 (eth0): no answer at port 4003, though port 22 answers: " +
				"a firewall lets only some ports pass; its own connections to others work",
		}},
		"a host that is cut off": {4, func(s *Survey) {
			each(s, func(w *Path) {
				if w.From == 1 || w.To == 1 {
					w.fails(noAnswer, PortsFiltered)
				}
			})
		}, []string{
			"unreachable n2: no other host reaches it at 10.0.0.2 (eth0), and it reaches no other host: no answer, nor at " +
				"other ports: there is no route, or a firewall drops everything",
		}},
		"a firewall that says no": {3, func(s *Survey) {
			s.way(1, 2).fails(unreachable, PortsOpen)
			s.way(2, 1).fails(refused, PortsOpen)
			s.way(3, 1).fails(noAnswer, PortsClosed)
			s.way(3, 2).fails(forbidden, PortsFiltered)
		}, []string{
			"unreachable n1: by eth0 (10.0.0.1) it cannot reach n2 at 10.0.0.2 (eth0) by TCP: unreachable at port 4001, " +
				"though port 22 answers: a firewall rejects all but some ports",
			"unreachable n2: by eth0 (10.0.0.2) it cannot reach n1 at 10.0.0.1 (eth0) by TCP: refused at port 4000, though " +
				"gorun listens there: a firewall rejects it, or another host has the address",
			"unreachable n3: by eth0 (10.0.0.3) it cannot reach n1 at 10.0.0.1 (eth0) by TCP: no answer at port 4000, " +
				"though the host refuses connections to other ports: a firewall drops this one; the reverse works",
			"unreachable n3: by eth0 (10.0.0.3) it cannot reach n2 at 10.0.0.2 (eth0) by TCP: a firewall on the dialing " +
				"host forbids it; the reverse works",
		}},
		"one of several addresses does": {2, func(s *Survey) {
			w := *s.way(1, 2)
			w.Addr = netip.MustParseAddr("172.17.0.1")
			w.fails(refused, "")
			s.Paths = append(s.Paths, &w)
		}, nil},
		"a link with a smaller MTU": {3, func(s *Survey) {
			for _, w := range []*Path{s.way(1, 3), s.way(3, 2)} {
				w.Measured = &Measured{RTT: 1, Packet: 1500, Passes: 1400, Vanishes: 1420}
			}
		}, []string{
			"path-mtu n3: packets of 1420 bytes vanish between n3 (eth0, 10.0.0.3) and n[1-2], packets of 1400 bytes " +
				"arrive: connections open and then stall; a link on the way has a smaller MTU than the interfaces, " +
				"and no router reports it",
		}},
		"losses of one host, some of which a queue may have dropped": {3, func(s *Survey) {
			s.way(1, 2).Measured.Resent = 9
			s.way(2, 1).Measured.Resent = 9
			s.way(2, 3).Measured.Resent = 1
		}, []string{
			"warning packet-loss n2: packets get lost between n2 (eth0, 10.0.0.2) and n[1,3]: TCP resent 19 of 1536 " +
				"segments (1 %) with few in flight, and is slow there",
		}},
		"a lost segment is nothing": {2, func(s *Survey) { s.way(1, 2).Measured.Resent = 1 }, nil},
		"data that does not arrive": {2, func(s *Survey) { s.way(1, 2).Measured = &Measured{Problem: stalls} }, []string{
			"unreachable n1: it reaches n2 at 10.0.0.2 (eth0) only unreliably: connections open, but data does not arrive",
		}},
		"an invented speed": {2, func(s *Survey) { s.Endpoints[1].Mbps, s.Endpoints[1].Device = 1000, false }, nil},
		"a slow host": {4, func(s *Survey) {
			each(s, func(w *Path) {
				if w.To == 3 || w.From == 3 {
					w.Measured.Bytes /= 100
				}
			})
		}, []string{
			"note network-speed n4: TCP connections over eth0, from and to it, carry at most 93.2 Mbit/s; between other " +
				"hosts 9.32 Gbit/s",
		}},
		"slow links": {3, func(s *Survey) { each(s, func(w *Path) { w.Measured.Bytes /= 100 }) }, []string{
			"note network-speed n[1-3]: one TCP connection on 6 paths between them, the first from n1 (eth0, 10.0.0.1) to n2 " +
				"at 10.0.0.2 (eth0) carries 93.2 Mbit/s, but the links have 10 Gbit/s",
		}},
		"a long way": {3, func(s *Survey) {
			for _, w := range []*Path{s.way(1, 2), s.way(2, 1)} {
				w.Result.RTT, w.Measured.RTT = 30*time.Millisecond, 20*time.Millisecond
			}
		}, []string{"note network-speed n[1-2]: a round trip between n1 (eth0, 10.0.0.1) and n2 (eth0, 10.0.0.2) takes " +
			"20.0 ms, elsewhere 0.1 ms"}},
		"networks that lead nowhere": {2, func(s *Survey) {
			dead := func(i int, kind string) Candidate {
				return Candidate{
					Addr: netip.MustParseAddr(fmt.Sprintf("10.6.0.%d", i)), Bits: 24,
					Interface: fmt.Sprint("eno", i), Kind: kind,
				}
			}
			s.aside(1, 2, dead(2, NoCarrier), Result{Problem: noAnswer})
			s.aside(2, 1, dead(1, Ordinary), Result{Problem: noRoute})
			s.aside(2, 1, Candidate{Addr: netip.MustParseAddr("10.7.0.1"), Bits: 24, Interface: "ib0"}, Result{RTT: 1})
		}, []string{"note network-interface n[1-2]: no host is reachable in the network 10.6.0.0/24 (eno1 of n1; eno2 " +
			"of n2, no carrier); it is not used"}},
		"IPv4 that leads nowhere beside IPv6": {2, func(s *Survey) {
			four := s.Nodes[1].Candidates[0]
			s.Endpoints[1].Addr, s.Endpoints[1].OtherFamily = netip.MustParseAddr("fd00::2"), true
			s.Paths = append(s.Paths, &Path{
				Pair: Pair{0, 1}, Addr: four.Addr, Alternate: true,
				Result: Result{Problem: noAnswer},
			})
		}, []string{
			"network-interface n2: the hosts connect by IPv6 (fd00::2), and no host reaches the IPv4 address 10.0.0.2 (eth0) " +
				"of the same interface, which Gloo prefers",
			"note network-interface n2: no host is reachable in the network 10.0.0.0/24 (eth0 of n2); it is not used",
		}},
		"IPv4 that works beside IPv6": {2, func(s *Survey) {
			s.Endpoints[1].Addr, s.Endpoints[1].OtherFamily = netip.MustParseAddr("fd00::2"), true
			s.Paths = append(s.Paths, &Path{
				Pair: Pair{0, 1}, Addr: s.Nodes[1].Candidates[0].Addr, Alternate: true,
				Result: Result{RTT: 1},
			})
		}, nil},
		"a tunnel": {2, func(s *Survey) { s.Endpoints[0].Kind, s.Endpoints[0].Interface = Tunnel, "wg0" }, []string{
			"note network-interface n1: it reaches the others over wg0 (10.0.0.1), a tunnel interface: no other network " +
				"connects all hosts",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := surveyed(row.nodes)
			row.harm(s)
			var lines []string
			for _, f := range s.Findings() {
				line := f.Check + " " + f.Where() + ": " + f.Text
				if f.Severity != doctor.Error {
					line = string(f.Severity) + " " + line
				}
				lines = append(lines, line)
				require.Regexp(t, `^(ssh \S+ '?)?(sudo )?(nft list|ip|ping|ethtool|tracepath) `, f.Fix)
			}
			require.Equal(t, row.want, lines)
			require.NotPanics(t, func() { s.Summary(); s.Grid(); s.Transfers() })
		})
	}
}

func TestHintsAreCommandsForThePlace(t *testing.T) {
	s := surveyed(3)
	s.way(1, 3).fails(noAnswer, PortsFiltered)
	s.way(2, 1).fails(refused, PortsOpen)
	s.way(2, 3).fails(forbidden, "")
	s.way(1, 2).Measured = &Measured{Passes: 1400, Vanishes: 1420}
	var hints []string
	for _, f := range s.Findings() {
		hints = append(hints, f.Fix)
	}
	require.Equal(t, []string{
		"ip route get 10.0.0.3",
		"ssh n1 'sudo nft list ruleset || sudo iptables-save'",
		"sudo nft list ruleset || sudo iptables-save",
		"ssh n1 'ping -c 3 -M do -s 1392 10.0.0.2'",
	}, hints)
}

// Names of hosts and interfaces are words of the command, whatever they contain, and a
// link-local address has its interface.
func TestHintsQuote(t *testing.T) {
	s := surveyed(2)
	s.Nodes[0].Name, s.Endpoints[0].Interface = "n;reboot", "e;reboot"
	s.way(1, 2).Addr, s.way(1, 2).Measured.Resent = netip.MustParseAddr("fe80::2"), 90
	s.way(1, 2).fails(noAnswer, PortsFiltered)
	s.way(2, 1).Measured.Resent = 90
	var hints []string
	for _, f := range s.Findings() {
		hints = append(hints, f.Fix)
	}
	require.Equal(t,
		[]string{"ip route get 'fe80::2%e;reboot'", `ssh 'n;reboot' 'ip -s -s link show dev '\''e;reboot'\'''`}, hints)
}

func TestTransfers(t *testing.T) {
	s := surveyed(3)
	require.Equal(t, "one TCP connection carries 9.32 Gbit/s to 9.32 Gbit/s; the slowest path is from n1 to n2",
		s.Transfers())
	s.way(3, 1).Measured.Bytes = 1 << 20
	require.Equal(t, "one TCP connection carries 93.2 Mbit/s to 9.32 Gbit/s; the slowest path is from n3 to n1",
		s.Transfers())
	s = surveyed(2)
	s.way(1, 2).Measured = nil
	require.Equal(t, "one TCP connection carries 9.32 Gbit/s from n2 to n1", s.Transfers())
	s.Paths = nil
	require.Empty(t, s.Transfers())
}
