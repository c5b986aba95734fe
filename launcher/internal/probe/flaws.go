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
	icmpOverhead   = 28   // headers of IPv4 and ICMP, which ping's -s does not count
	icmpv6Overhead = 48
)

const farAtLeast = 5 * time.Millisecond

// measured are the ways of which something was measured that a rule takes.
func (j *judge) measured(take func(m *Measured) bool) (ways []*Way) {
	for i := range j.Ways {
		if w := &j.Ways[i]; w.Measured != nil && take(w.Measured) {
			ways = append(ways, w)
		}
	}
	return ways
}

// vanishing finds ways on which large packets vanish.
func (j *judge) vanishing() (all []Finding) {
	type limit struct{ passes, vanishes int }
	groups := map[limit][]*Way{}
	var order []limit
	for _, w := range j.measured(func(m *Measured) bool { return m.Vanishes > 0 }) {
		l := limit{w.Measured.Passes, w.Measured.Vanishes}
		if groups[l] == nil {
			order = append(order, l)
		}
		groups[l] = append(groups[l], w)
	}
	for _, l := range order {
		ways := groups[l]
		w := ways[0]
		nodes, between := j.between(ways)
		overhead := icmpOverhead
		if w.Addr.Unmap().Is6() {
			overhead = icmpv6Overhead
		}
		all = append(all, Finding{
			Check: CheckMTU, Nodes: nodes,
			Text: fmt.Sprintf("packets of %d bytes vanish %s, those of %d arrive: connections are made and then stall; a link "+
				"between them has a smaller MTU than the interfaces, and nobody says so",
				l.vanishes, between, l.passes),
			Advice: fmt.Sprintf("let ICMP pass between them, or give the interfaces of all hosts an MTU of %d", l.passes),
			Hint:   j.on(w.From, nodes, fmt.Sprintf("ping -c 3 -M do -s %d %s", l.vanishes-overhead, j.dialed(w))),
		})
	}
	return all
}

// stalled finds ways that were reached and could not be measured.
func (j *judge) stalled() (all []Finding) {
	for _, w := range j.measured(func(m *Measured) bool { return m.Problem != "" }) {
		all = append(all, Finding{
			Check: CheckReach, Nodes: []int{w.From},
			Text: fmt.Sprintf("it reaches %s, but not reliably: %s", j.at(w.To, w.Addr), w.Measured.Problem),
			Hint: fmt.Sprintf("ping -c 20 -i 0.2 -s 1400 %s", j.dialed(w)),
		})
	}
	return all
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
func (j *judge) lossy() []*Way {
	pairs := map[Pair]losses{}
	ways := j.measured(func(m *Measured) bool { return m.Segments > 0 })
	for _, w := range ways {
		l := pairs[w.ends()]
		l.segments, l.resent = l.segments+w.Measured.Segments, l.resent+w.Measured.Resent
		l.flow, l.flowResent = l.flow+w.Measured.FlowSegments, l.flowResent+w.Measured.FlowResent
		pairs[w.ends()] = l
	}
	sure := map[int]bool{}
	for pair, l := range pairs {
		if l.sure() {
			sure[pair.From], sure[pair.To] = true, true
		}
	}
	return slices.DeleteFunc(ways, func(w *Way) bool {
		l := pairs[w.ends()]
		return !l.sure() && !(l.likely() && (sure[w.From] || sure[w.To]))
	})
}

// ends is the pair, whichever dials.
func (p Pair) ends() Pair { return Pair{min(p.From, p.To), max(p.From, p.To)} }

// loss tells of them.
func (j *judge) loss() []Finding {
	ways := j.lossy()
	if len(ways) == 0 {
		return nil
	}
	all, lost := 0, 0
	for _, w := range ways {
		all, lost = all+w.Measured.Segments, lost+w.Measured.Resent
	}
	nodes, between := j.between(ways)
	return []Finding{{
		Check: CheckLoss, Nodes: nodes,
		Text: fmt.Sprintf(
			"packets are lost %s: %d of %d segments (%.0f %%) had to be sent again with few under way; TCP is slow there",
			between, lost, all, 100*float64(lost)/float64(all)),
		Advice: "look at the cable, the port and its duplex; the switch counts errors, too",
		Hint:   j.on(nodes[0], nodes, "ip -s -s link show"+j.device(nodes[0], " dev ")),
	}}
}

// sizes compares the interfaces' own MTUs and speeds.
func (j *judge) sizes() (all []Finding) {
	compare := func(what, advice string, property func(p Place) int, written func(n int) string,
		command func(node, most int) string,
	) {
		count := map[int]int{}
		for _, p := range j.Places {
			count[property(p)]++
		}
		delete(count, 0)
		if len(count) < 2 {
			return
		}
		most := property(slices.MaxFunc(j.Places, func(a, b Place) int {
			return cmp.Or(cmp.Compare(count[property(a)], count[property(b)]), cmp.Compare(property(a), property(b)))
		}))
		others := "the others"
		if count[most] == 1 {
			others = "the other"
		}
		for i, p := range j.Places {
			if n := property(p); n != 0 && n != most {
				all = append(all, Finding{
					Check: CheckInterface, Nodes: []int{i}, Remark: true,
					Text:   fmt.Sprintf("%s of %s is %s, of %s' %s", what, p.Interface, written(n), others, written(most)),
					Advice: advice, Hint: command(i, most),
				})
			}
		}
	}
	compare("the MTU", "RDMA and UDP need the same everywhere",
		func(p Place) int { return p.MTU }, func(n int) string { return fmt.Sprint(n) },
		func(node, most int) string {
			return fmt.Sprintf("sudo ip link set%s mtu %d", j.device(node, " dev "), most)
		})
	compare("the speed", "the slowest link sets a job's pace",
		func(p Place) int {
			if !p.Device { // a figure of the driver's fancy
				return 0
			}
			return p.Mbps
		}, func(n int) string { return bitRate(float64(n) * 1e6) },
		func(node, _ int) string { return j.negotiated(node) })
	return all
}

// speeds finds hosts that are slower than the others, links that carry far less than
// they could, and long ways.
func (j *judge) speeds() (all []Finding) {
	if len(j.Names) >= slowHosts {
		all = append(all, j.slower()...)
	}
	told := map[int]bool{}
	for _, f := range all {
		told[f.Nodes[0]] = true
	}
	all = append(all, j.below(told)...)
	return append(all, j.far()...)
}

// below finds links of hardware that carry far less than they could; of some nodes that
// was told.
func (j *judge) below(told map[int]bool) []Finding {
	capacity := func(w *Way) float64 {
		p, q := j.Places[w.From], j.Places[w.To]
		if !p.Device || !q.Device {
			return 0
		}
		return float64(min(p.Mbps, q.Mbps)) * 1e6
	}
	lossy := j.lossy()
	ways := j.measured(func(m *Measured) bool { return m.Bytes > 0 })
	ways = slices.DeleteFunc(ways, func(w *Way) bool {
		return w.Rate() >= slowShare*capacity(w) || told[w.From] || told[w.To] ||
			slices.ContainsFunc(lossy, func(l *Way) bool {
				return l.Pair == w.Pair
			})
	})
	if len(ways) == 0 {
		return nil
	}
	slowest := slices.MinFunc(ways, func(a, b *Way) int { return cmp.Compare(a.Rate()/capacity(a), b.Rate()/capacity(b)) })
	nodes, between := j.between(ways)
	return []Finding{{
		Check: CheckSpeed, Nodes: nodes, Remark: true,
		Text: fmt.Sprintf("one TCP connection %s carries %s, of the %s that the links have", between,
			bitRate(slowest.Rate()), bitRate(capacity(slowest))),
		Advice: "gorun bench measures longer and with more connections",
		Hint:   j.on(slowest.From, nodes, j.negotiated(slowest.From)),
	}}
}

// slower compares the best of each host's ways with that of most.
func (j *judge) slower() (all []Finding) {
	best := make([]float64, len(j.Names))
	for i := range j.Ways {
		w := &j.Ways[i]
		best[w.From], best[w.To] = max(best[w.From], w.Rate()), max(best[w.To], w.Rate())
	}
	median := slices.Sorted(slices.Values(best))[len(best)/2]
	for i, rate := range best {
		if rate > 0 && slowerThan*rate < median {
			all = append(all, Finding{
				Check: CheckSpeed, Nodes: []int{i}, Remark: true,
				Text: fmt.Sprintf("by %s no TCP connection from or to it carries more than %s; between others %s",
					cmp.Or(j.Places[i].Interface, "its network"), bitRate(rate), bitRate(median)),
				Advice: "gorun bench measures longer", Hint: j.negotiated(i),
			})
		}
	}
	return all
}

// far finds ways that take much longer than most.
func (j *judge) far() []Finding {
	var times []time.Duration
	var reached []*Way
	for i := range j.Ways {
		if w := &j.Ways[i]; w.OK() && !w.Aside {
			times, reached = append(times, w.roundTrip()), append(reached, w)
		}
	}
	if len(times) < slowHosts {
		return nil
	}
	median := slices.Sorted(slices.Values(times))[len(times)/2]
	ways := slices.DeleteFunc(reached, func(w *Way) bool { return w.roundTrip() < max(farAtLeast, farTimes*median) })
	if len(ways) == 0 {
		return nil
	}
	longest := slices.MaxFunc(ways, func(a, b *Way) int { return cmp.Compare(a.roundTrip(), b.roundTrip()) }).roundTrip()
	nodes, between := j.between(ways)
	return []Finding{{
		Check: CheckSpeed, Nodes: nodes, Remark: true,
		Text: fmt.Sprintf("a round trip %s takes %s, elsewhere %s", between, milliseconds(longest), milliseconds(median)),
		Hint: j.on(ways[0].From, nodes, "tracepath -n "+j.dialed(ways[0])),
	}}
}

// families finds IPv4 addresses beside the IPv6 ones by which nodes talk that lead to
// nobody: Gloo takes an interface's IPv4 address before others, and so does NCCL that is
// not told otherwise.
func (j *judge) families() (all []Finding) {
	for node, p := range j.Places {
		if !p.Addr.Is6() || !p.OtherFamily {
			continue
		}
		for _, c := range j.Own[node] {
			if c.Interface == p.Interface && c.Addr.Is4() && j.dead(node, c.Addr) {
				all = append(all, Finding{
					Check: CheckInterface, Nodes: []int{node},
					Text: fmt.Sprintf(
						"the hosts talk by IPv6 (%s), and nobody reaches the IPv4 address %s of the same interface, which Gloo takes",
						p.Addr.WithZone(""), c),
					Advice: fmt.Sprintf("for NCCL gorun sets NCCL_SOCKET_FAMILY=AF_INET6; for Gloo the address %s/%d has to go",
						c.Addr, c.Bits),
					Hint: "ip addr show dev " + shellwords.Quote(c.Interface),
				})
			}
		}
	}
	return all
}

// dead reports whether an address beside a node's place was tried by others, in vain.
func (j *judge) dead(node int, addr netip.Addr) bool {
	tried := false
	for i := range j.Ways {
		if w := &j.Ways[i]; w.Aside && w.To == node && w.Addr == addr {
			if tried = true; w.OK() {
				return false
			}
		}
	}
	return tried
}

// asides finds networks that look like ones between the hosts and are not.
func (j *judge) asides() (all []Finding) {
	reached := map[netip.Prefix]bool{}
	members := map[netip.Prefix][]Pair{} // node, index in Own
	var order []netip.Prefix
	for i := range j.Ways {
		w := &j.Ways[i]
		at := slices.IndexFunc(j.Own[w.To], func(c Candidate) bool { return c.Addr == w.Addr.WithZone("") })
		if !w.Aside || at < 0 {
			continue
		}
		network, err := w.Addr.WithZone("").Prefix(j.Own[w.To][at].Bits)
		if err != nil {
			continue
		}
		if members[network] == nil {
			order = append(order, network)
		}
		if member := (Pair{w.To, at}); !slices.Contains(members[network], member) {
			members[network] = append(members[network], member)
		}
		reached[network] = reached[network] || w.OK()
	}
	for _, network := range order {
		if reached[network] {
			continue
		}
		var nodes []int
		var interfaces []string
		slices.SortFunc(members[network], func(a, b Pair) int { return cmp.Compare(a.From, b.From) })
		first := members[network][0]
		for _, member := range members[network] {
			c := j.Own[member.From][member.To]
			nodes = append(nodes, member.From)
			kind := ""
			if c.Kind != Ordinary {
				kind = ", " + c.Kind
			}
			interfaces = append(interfaces, fmt.Sprintf("%s of %s%s", c.Interface, j.Names[member.From], kind))
		}
		all = append(all, Finding{
			Check: CheckInterface, Nodes: slices.Compact(nodes), Remark: true,
			Text: fmt.Sprintf("nobody is reached in the network %s (%s); it is not used", network,
				strings.Join(interfaces[:min(len(interfaces), maxRows)], "; ")),
			Advice: "its cable, switch or VPN may be off",
			Hint: j.on(first.From, slices.Compact(nodes), "ip addr show dev "+
				shellwords.Quote(j.Own[first.From][first.To].Interface)),
		})
	}
	return all
}

// kinds finds hosts that talk by what is no network between hosts.
func (j *judge) kinds() (all []Finding) {
	for i, p := range j.Places {
		if p.Kind == Tunnel || p.Kind == HostOnly {
			all = append(all, Finding{
				Check: CheckInterface, Nodes: []int{i}, Remark: true,
				Text: fmt.Sprintf("it talks to the others by %s (%s), a %s interface: nothing else leads to all of them",
					p.Interface, p.Addr.WithZone(""), p.Kind),
				Advice: "--master-addr ADDRESS names another network", Hint: "ip -br addr",
			})
		}
	}
	return all
}
