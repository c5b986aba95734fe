package join

import (
	"cmp"
	"slices"
	"strings"
)

// numberNodes assigns the free node ranks to members without one and sorts members by rank. The order is that of the
// resource manager's node ids if each has one, else of host names, then addresses; digits compare as numbers (node2
// before node10). Only nodes that are equal in all of that, such as several on one host, keep their order of arrival.
func numberNodes(members []*Member, numNodes int) {
	taken, byID := make([]bool, numNodes), true
	var unranked []*Member
	taken[0] = true // node 0 does not dial
	for _, m := range members {
		if m.NodeRank >= 0 {
			taken[m.NodeRank] = true
			continue
		}
		unranked = append(unranked, m)
		byID = byID && m.Hello.NodeID != ""
	}
	slices.SortStableFunc(unranked, func(a, b *Member) int { return compareMembers(a, b, byID) })
	for _, m := range unranked {
		m.NodeRank = slices.Index(taken, false)
		taken[m.NodeRank] = true
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Compare(a.NodeRank, b.NodeRank) })
}

func compareMembers(a, b *Member, byID bool) int {
	byHost := cmp.Or(compareNatural(a.Hello.Host, b.Hello.Host), compareNatural(a.Hello.Addr, b.Hello.Addr),
		a.Peer.Addr().Compare(b.Peer.Addr()))
	if byID {
		return cmp.Or(compareNatural(a.Hello.NodeID, b.Hello.NodeID), byHost)
	}
	return byHost
}

// compareNatural compares texts with their digits as numbers. It returns 0 only for equal texts.
func compareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := countDigits(x), countDigits(y)
		if nx > 0 && ny > 0 {
			if c := compareNumbers(x[:nx], y[:ny]); c != 0 {
				return c
			}
			x, y = x[nx:], y[ny:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// countDigits counts the digits at the start of s.
func countDigits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
