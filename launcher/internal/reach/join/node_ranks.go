package join

import (
	"cmp"
	"fmt"
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
		byID = byID && m.NodeID != ""
	}
	slices.SortStableFunc(unranked, func(a, b *Member) int { return compareMembers(a, b, byID) })
	for _, m := range unranked {
		m.NodeRank = slices.Index(taken, false)
		taken[m.NodeRank] = true
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Compare(a.NodeRank, b.NodeRank) })
}

func compareMembers(a, b *Member, byID bool) int {
	byHost := cmp.Or(compareNatural(a.Host, b.Host), compareNatural(a.Addr, b.Addr),
		a.Peer.Addr().Compare(b.Peer.Addr()))
	if byID {
		return cmp.Or(compareNatural(a.NodeID, b.NodeID), byHost)
	}
	return byHost
}

// compareNatural compares texts with their digits as numbers. It returns 0 only for equal texts.
func compareNatural(a, b string) int {
	return cmp.Or(strings.Compare(naturalKey(a), naturalKey(b)), strings.Compare(a, b))
}

// naturalKey returns a text whose numbers have no leading zeros, and their length before them.
func naturalKey(text string) string {
	const digits = "0123456789"
	var key strings.Builder
	for {
		at := strings.IndexAny(text, digits)
		if at < 0 {
			return key.String() + text
		}
		rest := strings.TrimLeft(text[at:], digits)
		number := strings.TrimLeft(text[at:len(text)-len(rest)], "0")
		fmt.Fprintf(&key, "%s%03d%s", text[:at], len(number), number)
		text = rest
	}
}
