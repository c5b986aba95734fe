package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Survey is what idle nodes tried and measured between each other, as for gorun hosts check.
type Survey struct {
	Nodes []Node
	// Endpoints are where the nodes are dialed. A zero Addr means several candidates.
	Endpoints []Endpoint
	Paths     []*Path
}

// Path is a node that another one dialed at one of its addresses.
type Path struct {
	Pair
	Addr netip.Addr // that was dialed
	Port int
	// Alternate says that Addr is another one than that of the endpoint.
	Alternate bool
	Result    Result
	// OtherPorts is the state of ReferencePorts if this port was not reached: PortsOpen, PortsClosed or PortsFiltered; ""
	// if they were not tried.
	OtherPorts string
	Measured   *Measured // nil if not measured
}

// States of a host's other ports.
const (
	PortsOpen     = "answers" // a connection is accepted
	PortsClosed   = "refuses" // the host refuses connections
	PortsFiltered = "silent"
)

// ReferencePorts are tried if a host does not answer: SSH's, and one that is closed everywhere, so that a reachable
// host refuses.
var ReferencePorts = []int{22, 1}

// ClassifyPorts returns the state of ReferencePorts by the results of dialing them; "" without results.
func ClassifyPorts(results []Result) string {
	switch {
	case len(results) == 0:
		return ""
	case slices.ContainsFunc(results, Result.OK):
		return PortsOpen
	case slices.ContainsFunc(results, func(r Result) bool { return r.Problem == refused }):
		return PortsClosed
	}
	return PortsFiltered
}

// OK reports whether the node was dialed and reached.
func (p *Path) OK() bool { return p != nil && p.Result.OK() }

// Rate returns the measured bits per second, or 0.
func (p *Path) Rate() float64 {
	if p.Measured == nil || p.Measured.Time <= 0 {
		return 0
	}
	return float64(8*p.Measured.Bytes) / p.Measured.Time.Seconds()
}

// roundTrip returns the shortest round trip.
func (p *Path) roundTrip() time.Duration {
	if p.Measured != nil && p.Measured.RTT > 0 {
		return min(p.Result.RTT, p.Measured.RTT)
	}
	return p.Result.RTT
}

// Likely returns the addresses to dial on a node about which nothing else is known: its most plausible ones, or those
// that the user named.
func Likely(n Node, options Options) (addrs []netip.Addr) {
	nodes := []Node{n}
	order := Order(nodes, options)
	for _, index := range order[:FirstTry(nodes, order)] {
		addrs = append(addrs, n.Candidates[index].Addr)
	}
	return addrs
}

// Alternates returns a few addresses of a node, beside the chosen ones, that may lead to other hosts.
func Alternates(own []Candidate, chosen []netip.Addr) (addrs []netip.Addr) {
	const limit = 4
	for _, c := range own {
		if c.global() && c.Kind != HostOnly && !c.Temporary && !slices.Contains(chosen, c.Addr) {
			addrs = append(addrs, c.Addr)
		}
	}
	return addrs[:min(limit, len(addrs))]
}

// Names returns the nodes' names.
func (s *Survey) Names() []string { return names(s.Nodes) }

// best returns for each pair the path that ranks would use: of several addresses the fastest that works.
func (s *Survey) best() map[Pair]*Path {
	best := map[Pair]*Path{}
	for _, p := range s.Paths {
		old := best[p.Pair]
		if !p.Alternate && (old == nil || p.OK() && (!old.OK() || p.roundTrip() < old.roundTrip())) {
			best[p.Pair] = p
		}
	}
	return best
}

// Summary says in one line how many pairs work and which is the slowest; "" if none was tried.
func (s *Survey) Summary() string {
	best := s.best()
	if len(best) == 0 {
		return ""
	}
	working, slowest := 0, (*Path)(nil)
	for _, p := range s.Paths {
		if best[p.Pair] != p || !p.OK() {
			continue
		}
		if working++; slowest == nil || p.roundTrip() > slowest.roundTrip() {
			slowest = p
		}
	}
	text := fmt.Sprintf("%d of %d paths between %d hosts work", working, len(best), len(s.Nodes))
	if slowest != nil {
		text += fmt.Sprintf("; the slowest is from %s to %s: %s", s.Nodes[slowest.From].Name, s.Nodes[slowest.To].Name,
			milliseconds(slowest.roundTrip()))
	}
	return text
}

// Grid returns a matrix of round trips in milliseconds, dialing nodes on the left. "-" is a path that does not work,
// "." one that was not tried. It is "" for more nodes than are readable.
func (s *Survey) Grid() string {
	const maxNodes, cell, corner = 16, 8, "from / to"
	if len(s.Nodes) > maxNodes {
		return ""
	}
	width := len(corner)
	for _, n := range s.Nodes {
		width = max(width, len(n.Name))
	}
	best := s.best()
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, corner)
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, " %*s", max(cell, len(n.Name)), n.Name)
	}
	for from := range s.Nodes {
		fmt.Fprintf(&b, "\n%-*s", width, s.Nodes[from].Name)
		for to, n := range s.Nodes {
			text := "."
			if p := best[Pair{from, to}]; p.OK() {
				text = fmt.Sprintf("%.1f", inMilliseconds(p.roundTrip()))
			} else if p != nil {
				text = "-"
			}
			fmt.Fprintf(&b, " %*s", max(cell, len(n.Name)), text)
		}
	}
	return b.String()
}

// Transfers summarizes the measured rates in one line; "" if nothing was measured.
func (s *Survey) Transfers() string {
	paths := slices.DeleteFunc(slices.Clone(s.Paths), func(p *Path) bool { return p.Rate() == 0 })
	if len(paths) == 0 {
		return ""
	}
	byRate := func(a, b *Path) int { return cmp.Compare(a.Rate(), b.Rate()) }
	slowest, fastest := slices.MinFunc(paths, byRate), slices.MaxFunc(paths, byRate)
	from, to, rate := s.Nodes[slowest.From].Name, s.Nodes[slowest.To].Name, bitRate(slowest.Rate())
	if len(paths) == 1 {
		return fmt.Sprintf("one TCP connection carries %s from %s to %s", rate, from, to)
	}
	return fmt.Sprintf("one TCP connection carries %s to %s; the slowest path is from %s to %s", rate,
		bitRate(fastest.Rate()), from, to)
}

func bitRate(rate float64) string {
	const kilo = 1000
	for _, unit := range []string{"bit/s", "kbit/s", "Mbit/s"} {
		if rate < kilo {
			return fmt.Sprintf("%.3g %s", rate, unit)
		}
		rate /= kilo
	}
	return fmt.Sprintf("%.3g Gbit/s", rate)
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", inMilliseconds(d)) }
