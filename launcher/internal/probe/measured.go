package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gorun/internal/shellwords"
	"gorun/launcher/doctor"
)

// Thresholds for reporting.
const (
	minLost        = 3    // segments of one pair that were resent
	minLossShare   = 0.01 // of all segments
	minRateShare   = 0.05 // of what a link can carry
	slowFactor     = 4    // times slower than other hosts
	minCompared    = 4    // hosts, or paths
	farFactor      = 10   // times the median round trip
	minFar         = 5 * time.Millisecond
	icmpOverhead   = 28 // IPv4 and ICMP headers, which ping -s does not count
	icmpv6Overhead = 48
)

// measured returns the measured paths that match.
func (j *judge) measured(match func(m *Measured) bool) (paths []*Path) {
	for _, p := range j.Paths {
		if p.Measured != nil && match(p.Measured) {
			paths = append(paths, p)
		}
	}
	return paths
}

// vanishingPackets reports paths on which large packets vanish.
func (j *judge) vanishingPackets() {
	limited := j.measured(func(m *Measured) bool { return m.Vanishes > 0 })
	limits := func(p *Path) [2]int { return [2]int{p.Measured.Passes, p.Measured.Vanishes} }
	for _, paths := range groupBy(limited, limits) {
		p, m := paths[0], paths[0].Measured
		nodes, between := j.between(paths)
		overhead := icmpOverhead
		if p.Addr.Unmap().Is6() {
			overhead = icmpv6Overhead
		}
		j.add(doctor.Error, doctor.PathMTU, nodes, fmt.Sprintf(
			"packets of %d bytes vanish %s, packets of %d bytes arrive: connections open and then stall; "+
				"a link on the way has a smaller MTU than the interfaces, and no router reports it",
			m.Vanishes, between, m.Passes),
			fmt.Sprintf("let ICMP pass between the hosts, or set an MTU of %d on the interfaces of all hosts", m.Passes),
			j.runOn(p.From, nodes, fmt.Sprintf("ping -c 3 -M do -s %d %s", m.Vanishes-overhead, j.destination(p))))
	}
}

// stalled reports paths that were reached but could not be measured.
func (j *judge) stalled() {
	for _, p := range j.measured(func(m *Measured) bool { return m.Problem != "" }) {
		j.add(doctor.Error, doctor.Unreachable, []int{p.From}, fmt.Sprintf("it reaches %s only unreliably: %s", j.remote(p),
			p.Measured.Problem), "", "ping -c 20 -i 0.2 -s 1400 "+j.destination(p))
	}
}

// losses counts the segments between two nodes, in both directions, and the resent ones: with few in flight, and in a
// transfer, in which full queues drop some.
type losses struct{ segments, resent, flow, flowResent int }

// certain reports a loss that no full queue explains.
func (l losses) certain() bool {
	return l.resent >= minLost && float64(l.resent) >= minLossShare*float64(l.segments)
}

// likely is enough if one of the nodes has certain losses on other paths.
func (l losses) likely() bool {
	return l.resent > 0 && l.flowResent >= minLost && float64(l.flowResent) >= minLossShare*float64(l.flow)
}

func (j *judge) lossyPaths() []*Path {
	pairs := map[Pair]losses{}
	paths := j.measured(func(m *Measured) bool { return m.Segments > 0 })
	for _, p := range paths {
		l, m := pairs[p.undirected()], p.Measured
		pairs[p.undirected()] = losses{
			l.segments + m.Segments, l.resent + m.Resent, l.flow + m.FlowSegments, l.flowResent + m.FlowResent,
		}
	}
	lossyNodes := map[int]bool{}
	for pair, l := range pairs {
		if l.certain() {
			lossyNodes[pair.From], lossyNodes[pair.To] = true, true
		}
	}
	return slices.DeleteFunc(paths, func(p *Path) bool {
		l := pairs[p.undirected()]
		return !l.certain() && !(l.likely() && (lossyNodes[p.From] || lossyNodes[p.To]))
	})
}

func (j *judge) loss() {
	paths := j.lossyPaths()
	if len(paths) == 0 {
		return
	}
	all, lost := 0, 0
	for _, p := range paths {
		all, lost = all+p.Measured.Segments, lost+p.Measured.Resent
	}
	nodes, between := j.between(paths)
	j.add(doctor.Warning, doctor.PacketLoss, nodes, fmt.Sprintf(
		"packets get lost %s: TCP resent %d of %d segments (%.0f %%) with few in flight, and is slow there",
		between, lost, all, 100*float64(lost)/float64(all)),
		"check the cable, the port, its duplex mode and the switch's error counters",
		j.runOn(nodes[0], nodes, "ip -s -s link show"+j.withDevice(" dev ", nodes[0])))
}

// speed returns the speed of hardware in Mbit/s, or 0. Virtual devices report arbitrary speeds.
func (e Endpoint) speed() int {
	if !e.Device {
		return 0
	}
	return e.Mbps
}

// slowLinks reports hardware links that carry far less than they could, without nodes that were reported as slow.
func (j *judge) slowLinks(slow map[int]bool) {
	capacity := func(p *Path) float64 {
		return float64(min(j.Endpoints[p.From].speed(), j.Endpoints[p.To].speed())) * 1e6
	}
	lossy := j.lossyPaths()
	paths := j.measured(func(m *Measured) bool { return m.Bytes > 0 })
	paths = slices.DeleteFunc(paths, func(p *Path) bool {
		return p.Rate() >= minRateShare*capacity(p) || slow[p.From] || slow[p.To] ||
			slices.ContainsFunc(lossy, func(l *Path) bool { return l.Pair == p.Pair })
	})
	if len(paths) == 0 {
		return
	}
	slowest := slices.MinFunc(paths, func(a, b *Path) int {
		return cmp.Compare(a.Rate()/capacity(a), b.Rate()/capacity(b))
	})
	nodes, between := j.between(paths)
	j.add(doctor.Note, doctor.NetworkSpeed, nodes, fmt.Sprintf("one TCP connection %s carries %s, but the links "+
		"have %s", between, bitRate(slowest.Rate()), bitRate(capacity(slowest))),
		"`gorun bench` measures longer and with more connections",
		j.runOn(slowest.From, nodes, j.showSpeed(slowest.From)))
}

// slowHosts reports and returns the hosts whose best path is much slower than that of most.
func (j *judge) slowHosts() map[int]bool {
	best, slow := make([]float64, len(j.Nodes)), map[int]bool{}
	if len(best) < minCompared {
		return slow
	}
	for _, p := range j.Paths {
		best[p.From], best[p.To] = max(best[p.From], p.Rate()), max(best[p.To], p.Rate())
	}
	median := slices.Sorted(slices.Values(best))[len(best)/2]
	for i, rate := range best {
		if slow[i] = rate > 0 && slowFactor*rate < median; slow[i] {
			j.add(doctor.Note, doctor.NetworkSpeed, []int{i}, fmt.Sprintf(
				"TCP connections over %s, from and to it, carry at most %s; between other hosts %s",
				cmp.Or(j.Endpoints[i].Interface, "its network"), bitRate(rate), bitRate(median)),
				"`gorun bench` measures longer", j.showSpeed(i))
		}
	}
	return slow
}

// distant reports paths with a much longer round trip than most.
func (j *judge) distant() {
	var paths []*Path
	for _, p := range j.Paths {
		if p.OK() && !p.Alternate {
			paths = append(paths, p)
		}
	}
	if len(paths) < minCompared {
		return
	}
	byTime := slices.SortedFunc(slices.Values(paths), func(a, b *Path) int {
		return cmp.Compare(a.roundTrip(), b.roundTrip())
	})
	median, longest := byTime[len(byTime)/2].roundTrip(), byTime[len(byTime)-1].roundTrip()
	paths = slices.DeleteFunc(paths, func(p *Path) bool { return p.roundTrip() < max(minFar, farFactor*median) })
	if len(paths) == 0 {
		return
	}
	nodes, between := j.between(paths)
	j.add(doctor.Note, doctor.NetworkSpeed, nodes, fmt.Sprintf("a round trip %s takes %s, elsewhere %s", between,
		milliseconds(longest), milliseconds(median)), "",
		j.runOn(paths[0].From, nodes, "tracepath -n "+j.destination(paths[0])))
}

// deadIPv4 reports IPv4 addresses that nobody reaches, on interfaces whose nodes talk IPv6: Gloo prefers an interface's
// IPv4 address, and so does NCCL by default.
func (j *judge) deadIPv4() {
	for node, e := range j.Endpoints {
		if !e.Addr.Is6() || !e.OtherFamily {
			continue
		}
		for _, c := range j.Nodes[node].Candidates {
			if c.Interface == e.Interface && c.Addr.Is4() && j.dead(node, c.Addr) {
				j.add(doctor.Error, doctor.NetworkInterface, []int{node}, fmt.Sprintf(
					"the hosts connect by IPv6 (%s), and no host reaches the IPv4 address %s of the same interface, "+
						"which Gloo prefers",
					e.Addr.WithZone(""), c),
					fmt.Sprintf("remove the address %s/%d for Gloo; gorun sets NCCL_SOCKET_FAMILY=AF_INET6 for NCCL",
						c.Addr, c.Bits),
					"ip addr show dev "+shellwords.Quote(c.Interface))
			}
		}
	}
}

// dead reports whether an alternate address was tried and never reached.
func (j *judge) dead(node int, addr netip.Addr) bool {
	var tried []*Path
	for _, p := range j.Paths {
		if p.Alternate && p.To == node && p.Addr == addr {
			tried = append(tried, p)
		}
	}
	return len(tried) > 0 && !slices.ContainsFunc(tried, (*Path).OK)
}

// deadNetworks reports networks that look as if they connected the hosts, but do not.
func (j *judge) deadNetworks() {
	type member struct {
		Candidate
		node    int
		network netip.Prefix
	}
	reached := map[netip.Prefix]bool{}
	var members []member
	for _, p := range j.Paths {
		own := j.Nodes[p.To].Candidates
		i := slices.IndexFunc(own, func(c Candidate) bool { return c.Addr == p.Addr.WithZone("") })
		if !p.Alternate || i < 0 {
			continue
		}
		network, err := own[i].Addr.Prefix(own[i].Bits)
		if m := (member{own[i], p.To, network}); err == nil && !slices.Contains(members, m) {
			members = append(members, m)
		}
		reached[network] = reached[network] || p.OK()
	}
	for _, group := range groupBy(members, func(m member) netip.Prefix { return m.network }) {
		if reached[group[0].network] {
			continue
		}
		slices.SortStableFunc(group, func(a, b member) int { return cmp.Compare(a.node, b.node) })
		var nodes []int
		var interfaces []string
		for _, m := range group {
			text := m.Interface + " of " + j.Nodes[m.node].Name
			if m.Kind != Ordinary {
				text += ", " + m.Kind
			}
			nodes, interfaces = append(nodes, m.node), append(interfaces, text)
		}
		nodes = slices.Compact(nodes)
		j.add(doctor.Note, doctor.NetworkInterface, nodes, fmt.Sprintf(
			"no host is reachable in the network %s (%s); it is not used",
			group[0].network, strings.Join(interfaces[:min(len(interfaces), maxRows)], "; ")),
			"check its cables, switch or VPN",
			j.runOn(nodes[0], nodes, "ip addr show dev "+shellwords.Quote(group[0].Interface)))
	}
}

// unusualInterfaces reports hosts that talk over interfaces that are not meant to connect hosts.
func (j *judge) unusualInterfaces() {
	for i, e := range j.Endpoints {
		if e.Kind == Tunnel || e.Kind == HostOnly {
			j.add(doctor.Note, doctor.NetworkInterface, []int{i}, fmt.Sprintf(
				"it reaches the others over %s (%s), a %s interface: no other network connects all hosts",
				e.Interface, e.Addr.WithZone(""), e.Kind), "name another network with `--master-addr ADDRESS`", "ip -br addr")
		}
	}
}
