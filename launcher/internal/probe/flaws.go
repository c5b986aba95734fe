package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gorun/internal/shellwords"
)

// What is told of.
const (
	lossLeast      = 3    // segments sent again, of one pair: one or two are nothing
	lossShare      = 0.01 // of the segments
	slowShare      = 0.05 // of what a link can carry
	slowerThan     = 4    // times slower than other hosts
	slowHosts      = 4    // that are needed to compare
	farTimes       = 10   // times the median round trip
	farAtLeast     = 5 * time.Millisecond
	icmpOverhead   = 28 // headers of IPv4 and ICMP, which ping's -s does not count
	icmpv6Overhead = 48
)

// measured are the ways of which something was measured that a rule takes.
func (j *judge) measured(take func(m *Measured) bool) (ways []*Path) {
	for _, w := range j.Paths {
		if w.Measured != nil && take(w.Measured) {
			ways = append(ways, w)
		}
	}
	return ways
}

// vanishing finds ways on which large packets vanish.
func (j *judge) vanishing() {
	limited := j.measured(func(m *Measured) bool { return m.Vanishes > 0 })
	for _, ways := range groups(limited, func(w *Path) [2]int { return [2]int{w.Measured.Passes, w.Measured.Vanishes} }) {
		w := ways[0]
		nodes, between := j.between(ways)
		overhead := icmpOverhead
		if w.Addr.Unmap().Is6() {
			overhead = icmpv6Overhead
		}
		j.flaw(CheckMTU, nodes, fmt.Sprintf("packets of %d bytes vanish %s, those of %d arrive: connections are made and "+
			"then stall; a link between them has a smaller MTU than the interfaces, and nobody says so",
			w.Measured.Vanishes, between, w.Measured.Passes),
			fmt.Sprintf("let ICMP pass between them, or give the interfaces of all hosts an MTU of %d", w.Measured.Passes),
			j.on(w.From, nodes, fmt.Sprintf("ping -c 3 -M do -s %d %s", w.Measured.Vanishes-overhead, j.dialed(w))))
	}
}

// stalled finds ways that were reached and could not be measured.
func (j *judge) stalled() {
	for _, w := range j.measured(func(m *Measured) bool { return m.Problem != "" }) {
		j.flaw(CheckReach, []int{w.From}, fmt.Sprintf("it reaches %s, but not reliably: %s", j.at(w), w.Measured.Problem), "",
			"ping -c 20 -i 0.2 -s 1400 "+j.dialed(w))
	}
}

// losses are the segments between two nodes, both ways, and those sent again: with few
// under way, and in a transfer, where full queues drop some.
type losses struct{ segments, resent, flow, flowResent int }

// sure says that packets are lost that no queue dropped.
func (l losses) sure() bool {
	return l.resent >= lossLeast && float64(l.resent) >= lossShare*float64(l.segments)
}

// likely is enough where one of the nodes loses packets on other ways for sure.
func (l losses) likely() bool {
	return l.resent > 0 && l.flowResent >= lossLeast && float64(l.flowResent) >= lossShare*float64(l.flow)
}

// lossy are the ways between nodes where packets are lost.
func (j *judge) lossy() []*Path {
	pairs := map[Pair]losses{}
	ways := j.measured(func(m *Measured) bool { return m.Segments > 0 })
	for _, w := range ways {
		l, m := pairs[w.ends()], w.Measured
		pairs[w.ends()] = losses{
			l.segments + m.Segments, l.resent + m.Resent, l.flow + m.FlowSegments, l.flowResent + m.FlowResent,
		}
	}
	sure := map[int]bool{}
	for pair, l := range pairs {
		if l.sure() {
			sure[pair.From], sure[pair.To] = true, true
		}
	}
	return slices.DeleteFunc(ways, func(w *Path) bool {
		l := pairs[w.ends()]
		return !l.sure() && !(l.likely() && (sure[w.From] || sure[w.To]))
	})
}

// loss tells of them.
func (j *judge) loss() {
	ways := j.lossy()
	if len(ways) == 0 {
		return
	}
	all, lost := 0, 0
	for _, w := range ways {
		all, lost = all+w.Measured.Segments, lost+w.Measured.Resent
	}
	nodes, between := j.between(ways)
	j.flaw(CheckLoss, nodes, fmt.Sprintf(
		"packets are lost %s: %d of %d segments (%.0f %%) had to be sent again with few under way; TCP is slow there",
		between, lost, all, 100*float64(lost)/float64(all)),
		"look at the cable, the port and its duplex; the switch counts errors, too",
		j.on(nodes[0], nodes, "ip -s -s link show"+j.device(nodes[0], " dev ")))
}

// sizes compares the interfaces' own MTUs and speeds.
func (j *judge) sizes() {
	compare := func(what, advice string, property func(p Endpoint) int, written func(n int) string,
		command func(node, most int) string,
	) {
		count := map[int]int{}
		for _, p := range j.Endpoints {
			count[property(p)]++
		}
		delete(count, 0)
		if len(count) < 2 {
			return
		}
		most := property(slices.MaxFunc(j.Endpoints, func(a, b Endpoint) int {
			return cmp.Or(cmp.Compare(count[property(a)], count[property(b)]), cmp.Compare(property(a), property(b)))
		}))
		others := "the others"
		if count[most] == 1 {
			others = "the other"
		}
		for i, p := range j.Endpoints {
			if n := property(p); n != 0 && n != most {
				j.remark(CheckInterface, []int{i}, fmt.Sprintf("%s of %s is %s, of %s' %s", what, p.Interface, written(n), others,
					written(most)), advice, command(i, most))
			}
		}
	}
	compare("the MTU", "RDMA and UDP need the same everywhere",
		func(p Endpoint) int { return p.MTU }, func(n int) string { return fmt.Sprint(n) },
		func(node, most int) string {
			return fmt.Sprintf("sudo ip link set%s mtu %d", j.device(node, " dev "), most)
		})
	compare("the speed", "the slowest link sets a job's pace",
		Endpoint.speed, func(n int) string { return bitRate(float64(n) * 1e6) },
		func(node, _ int) string { return j.negotiated(node) })
}

// speed is that of hardware in Mbit/s, 0: not known. Others have a figure of the driver's fancy.
func (p Endpoint) speed() int {
	if !p.Device {
		return 0
	}
	return p.Mbps
}

// speeds finds hosts that are slower than the others, links that carry far less than
// they could, and long ways.
func (j *judge) speeds() {
	slow := map[int]bool{}
	if len(j.Names) >= slowHosts {
		j.slower(slow)
	}
	j.below(slow)
	j.far()
}

// below finds links of hardware that carry far less than they could; of some nodes that
// was told.
func (j *judge) below(told map[int]bool) {
	capacity := func(w *Path) float64 {
		return float64(min(j.Endpoints[w.From].speed(), j.Endpoints[w.To].speed())) * 1e6
	}
	lossy := j.lossy()
	ways := j.measured(func(m *Measured) bool { return m.Bytes > 0 })
	ways = slices.DeleteFunc(ways, func(w *Path) bool {
		return w.Rate() >= slowShare*capacity(w) || told[w.From] || told[w.To] ||
			slices.ContainsFunc(lossy, func(l *Path) bool { return l.Pair == w.Pair })
	})
	if len(ways) == 0 {
		return
	}
	slowest := slices.MinFunc(ways, func(a, b *Path) int {
		return cmp.Compare(a.Rate()/capacity(a), b.Rate()/capacity(b))
	})
	nodes, between := j.between(ways)
	j.remark(CheckSpeed, nodes, fmt.Sprintf("one TCP connection %s carries %s, of the %s that the links have", between,
		bitRate(slowest.Rate()), bitRate(capacity(slowest))), "gorun bench measures longer and with more connections",
		j.on(slowest.From, nodes, j.negotiated(slowest.From)))
}

// slower compares the best of each host's ways with that of most, and notes who is slow.
func (j *judge) slower(slow map[int]bool) {
	best := make([]float64, len(j.Names))
	for _, w := range j.Paths {
		best[w.From], best[w.To] = max(best[w.From], w.Rate()), max(best[w.To], w.Rate())
	}
	median := slices.Sorted(slices.Values(best))[len(best)/2]
	for i, rate := range best {
		if slow[i] = rate > 0 && slowerThan*rate < median; slow[i] {
			j.remark(CheckSpeed, []int{i}, fmt.Sprintf(
				"by %s no TCP connection from or to it carries more than %s; between others %s",
				cmp.Or(j.Endpoints[i].Interface, "its network"), bitRate(rate), bitRate(median)),
				"gorun bench measures longer", j.negotiated(i))
		}
	}
}

// far finds ways that take much longer than most.
func (j *judge) far() {
	var ways []*Path
	for _, w := range j.Paths {
		if w.OK() && !w.Alternate {
			ways = append(ways, w)
		}
	}
	if len(ways) < slowHosts {
		return
	}
	byTime := slices.SortedFunc(slices.Values(ways), func(a, b *Path) int {
		return cmp.Compare(a.roundTrip(), b.roundTrip())
	})
	median, longest := byTime[len(byTime)/2].roundTrip(), byTime[len(byTime)-1].roundTrip()
	ways = slices.DeleteFunc(ways, func(w *Path) bool { return w.roundTrip() < max(farAtLeast, farTimes*median) })
	if len(ways) == 0 {
		return
	}
	nodes, between := j.between(ways)
	j.remark(CheckSpeed, nodes, fmt.Sprintf("a round trip %s takes %s, elsewhere %s", between, milliseconds(longest),
		milliseconds(median)), "", j.on(ways[0].From, nodes, "tracepath -n "+j.dialed(ways[0])))
}

// families finds IPv4 addresses beside the IPv6 ones by which nodes talk that lead to
// nobody: Gloo takes an interface's IPv4 address before others, and so does NCCL that is
// not told otherwise.
func (j *judge) families() {
	for node, p := range j.Endpoints {
		if !p.Addr.Is6() || !p.OtherFamily {
			continue
		}
		for _, c := range j.Candidates[node] {
			if c.Interface == p.Interface && c.Addr.Is4() && j.dead(node, c.Addr) {
				j.flaw(CheckInterface, []int{node}, fmt.Sprintf(
					"the hosts talk by IPv6 (%s), and nobody reaches the IPv4 address %s of the same interface, which Gloo takes",
					p.Addr.WithZone(""), c),
					fmt.Sprintf("for NCCL gorun sets NCCL_SOCKET_FAMILY=AF_INET6; for Gloo the address %s/%d has to go",
						c.Addr, c.Bits),
					"ip addr show dev "+shellwords.Quote(c.Interface))
			}
		}
	}
}

// dead reports whether an address beside a node's place was tried by others, in vain.
func (j *judge) dead(node int, addr netip.Addr) bool {
	tried := false
	for _, w := range j.Paths {
		if w.Alternate && w.To == node && w.Addr == addr {
			if tried = true; w.OK() {
				return false
			}
		}
	}
	return tried
}

// asides finds networks that look like ones between the hosts and are not.
func (j *judge) asides() {
	type member struct {
		Candidate
		node    int
		network netip.Prefix
	}
	reached := map[netip.Prefix]bool{}
	var members []member
	for _, w := range j.Paths {
		at := slices.IndexFunc(j.Candidates[w.To], func(c Candidate) bool { return c.Addr == w.Addr.WithZone("") })
		if !w.Alternate || at < 0 {
			continue
		}
		c := j.Candidates[w.To][at]
		network, err := c.Addr.Prefix(c.Bits)
		if m := (member{c, w.To, network}); err == nil && !slices.Contains(members, m) {
			members = append(members, m)
		}
		reached[network] = reached[network] || w.OK()
	}
	for _, within := range groups(members, func(m member) netip.Prefix { return m.network }) {
		if reached[within[0].network] {
			continue
		}
		slices.SortStableFunc(within, func(a, b member) int { return cmp.Compare(a.node, b.node) })
		var nodes []int
		var interfaces []string
		for _, m := range within {
			kind := ""
			if m.Kind != Ordinary {
				kind = ", " + m.Kind
			}
			nodes = append(nodes, m.node)
			interfaces = append(interfaces, fmt.Sprintf("%s of %s%s", m.Interface, j.Names[m.node], kind))
		}
		nodes = slices.Compact(nodes)
		j.remark(CheckInterface, nodes, fmt.Sprintf("nobody is reached in the network %s (%s); it is not used",
			within[0].network, strings.Join(interfaces[:min(len(interfaces), maxRows)], "; ")),
			"its cable, switch or VPN may be off",
			j.on(nodes[0], nodes, "ip addr show dev "+shellwords.Quote(within[0].Interface)))
	}
}

// kinds finds hosts that talk by what is no network between hosts.
func (j *judge) kinds() {
	for i, p := range j.Endpoints {
		if p.Kind == Tunnel || p.Kind == HostOnly {
			j.remark(CheckInterface, []int{i}, fmt.Sprintf(
				"it talks to the others by %s (%s), a %s interface: nothing else leads to all of them",
				p.Interface, p.Addr.WithZone(""), p.Kind), "--master-addr ADDRESS names another network", "ip -br addr")
		}
	}
}
