package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Survey is what was tried and measured between nodes that stand still for it, as for
// gorun hosts check: plain data, of which Problems makes sentences.
type Survey struct {
	Names []string
	// Candidates has, for every node, its addresses.
	Candidates [][]Candidate
	// Endpoints are where the nodes are dialed; Addr is not valid where that is not one
	// address.
	Endpoints []Endpoint
	Paths     []*Path
}

// Path is a node that was dialed by another at one of its addresses.
type Path struct {
	Pair
	Addr netip.Addr // that was dialed
	Port int
	// Alternate says that Addr is not where the choice has the node, but one of its others.
	Alternate bool
	Result    Result
	// ConnectOnly says how other ports of that address answer where this one did not: one of
	// PortsOpen, PortsClosed and PortsFiltered; "": not tried.
	OtherPorts string
	Measured   *Measured // nil: not measured
}

// What is heard of a host's other ports.
const (
	PortsOpen     = "answers" // somebody accepts connections there: SSH's port
	PortsClosed   = "refuses" // nobody listens, but the host says so
	PortsFiltered = "silent"
)

// ReferencePorts are tried where a host does not answer: SSH's, and one at which nobody
// listens, so that a host that lets it pass refuses.
var ReferencePorts = []int{22, 1}

// ClassifyPorts says what answers to knocks at ReferencePorts mean.
func ClassifyPorts(answers []Result) string {
	switch {
	case len(answers) == 0:
		return ""
	case slices.ContainsFunc(answers, Result.OK):
		return PortsOpen
	case slices.ContainsFunc(answers, func(a Result) bool { return a.Problem == refused }):
		return PortsClosed
	}
	return PortsFiltered
}

// OK reports whether the node was tried, and reached.
func (w *Path) OK() bool { return w != nil && w.Result.OK() }

// Rate is what a measured way carried in bits per second, 0: not known.
func (w *Path) Rate() float64 {
	if w.Measured == nil || w.Measured.Time <= 0 {
		return 0
	}
	return float64(8*w.Measured.Bytes) / w.Measured.Time.Seconds()
}

// Alternates returns which addresses of a node are tried beside the one that was chosen:
// those that might lead to other hosts, few.
func Alternates(own []Candidate, chosen []netip.Addr) (addrs []netip.Addr) {
	const most = 4
	for _, c := range own {
		beyond := c.Kind == Ordinary || c.Kind == NoCarrier || c.Kind == Tunnel
		if beyond && !c.Temporary && !c.Addr.IsLinkLocalUnicast() && !slices.Contains(chosen, c.Addr) {
			addrs = append(addrs, c.Addr)
		}
	}
	return addrs[:min(most, len(addrs))]
}

// Matrix is who reaches whom at the places that were chosen.
func (s *Survey) Matrix() Matrix {
	m := Matrix{Names: s.Names}
	for _, w := range s.Paths {
		if !w.Alternate {
			a := w.Result
			a.RTT = w.roundTrip()
			m.Add(w.From, w.To, a)
		}
	}
	return m
}

// Transfers says in a line what the ways carry, "" where nothing was measured.
func (s *Survey) Transfers() string {
	ways := slices.DeleteFunc(slices.Clone(s.Paths), func(w *Path) bool { return w.Rate() == 0 })
	if len(ways) == 0 {
		return ""
	}
	byRate := func(a, b *Path) int { return cmp.Compare(a.Rate(), b.Rate()) }
	slowest, fastest := slices.MinFunc(ways, byRate), slices.MaxFunc(ways, byRate)
	from, to, rate := s.Names[slowest.From], s.Names[slowest.To], bitRate(slowest.Rate())
	if len(ways) == 1 {
		return fmt.Sprintf("one TCP connection carries %s from %s to %s", rate, from, to)
	}
	return fmt.Sprintf("one TCP connection carries %s to %s; the slowest way is from %s to %s", rate,
		bitRate(fastest.Rate()), from, to)
}

// bitRate writes a rate.
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

// roundTrip is the shortest one that was seen.
func (w *Path) roundTrip() time.Duration {
	if w.Measured != nil && w.Measured.RTT > 0 {
		return min(w.Result.RTT, w.Measured.RTT)
	}
	return w.Result.RTT
}
