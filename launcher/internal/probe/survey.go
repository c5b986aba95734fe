package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Survey is what was tried and measured between nodes that stand still for it, as for
// gorun hosts check: plain data, of which Flaws makes sentences.
type Survey struct {
	Names []string
	// Own has, for every node, its addresses.
	Own [][]Candidate
	// Places are where the nodes are dialed; Addr is not valid where that is not one
	// address.
	Places []Place
	Ways   []*Way
}

// Way is a node that was dialed by another at one of its addresses.
type Way struct {
	Pair
	Addr netip.Addr // that was dialed
	Port int
	// Aside says that Addr is not where the choice has the node, but one of its others.
	Aside  bool
	Answer Answer
	// Knock says how other ports of that address answer where this one did not: one of
	// KnockAnswers, KnockRefuses and KnockSilent; "": not tried.
	Knock    string
	Measured *Measured // nil: not measured
}

// What is heard of a host's other ports.
const (
	KnockAnswers = "answers" // somebody accepts connections there: SSH's port
	KnockRefuses = "refuses" // nobody listens, but the host says so
	KnockSilent  = "silent"
)

// KnockPorts are tried where a host does not answer: SSH's, and one at which nobody
// listens, so that a host that lets it pass refuses.
var KnockPorts = []int{22, 1}

// Knocked says what answers to knocks at KnockPorts mean.
func Knocked(answers []Answer) string {
	switch {
	case len(answers) == 0:
		return ""
	case slices.ContainsFunc(answers, Answer.OK):
		return KnockAnswers
	case slices.ContainsFunc(answers, func(a Answer) bool { return a.Problem == refused }):
		return KnockRefuses
	}
	return KnockSilent
}

// OK reports whether the node was tried, and reached.
func (w *Way) OK() bool { return w != nil && w.Answer.OK() }

// Rate is what a measured way carried in bits per second, 0: not known.
func (w *Way) Rate() float64 {
	if w.Measured == nil || w.Measured.Time <= 0 {
		return 0
	}
	return float64(8*w.Measured.Bytes) / w.Measured.Time.Seconds()
}

// Asides returns which addresses of a node are tried beside the one that was chosen:
// those that might lead to other hosts, few.
func Asides(own []Candidate, chosen []netip.Addr) (addrs []netip.Addr) {
	const most = 4
	for _, c := range own {
		beyond := c.Kind == Ordinary || c.Kind == NoCarrier || c.Kind == Tunnel
		if beyond && !c.Passing && !c.Addr.IsLinkLocalUnicast() && !slices.Contains(chosen, c.Addr) {
			addrs = append(addrs, c.Addr)
		}
	}
	return addrs[:min(most, len(addrs))]
}

// Matrix is who reaches whom at the places that were chosen.
func (s *Survey) Matrix() Matrix {
	m := Matrix{Names: s.Names}
	for _, w := range s.Ways {
		if !w.Aside {
			a := w.Answer
			a.RTT = w.roundTrip()
			m.Add(w.From, w.To, a)
		}
	}
	return m
}

// Transfers says in a line what the ways carry, "" where nothing was measured.
func (s *Survey) Transfers() string {
	ways := slices.DeleteFunc(slices.Clone(s.Ways), func(w *Way) bool { return w.Rate() == 0 })
	if len(ways) == 0 {
		return ""
	}
	byRate := func(a, b *Way) int { return cmp.Compare(a.Rate(), b.Rate()) }
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
func (w *Way) roundTrip() time.Duration {
	if w.Measured != nil && w.Measured.RTT > 0 {
		return min(w.Answer.RTT, w.Measured.RTT)
	}
	return w.Answer.RTT
}
