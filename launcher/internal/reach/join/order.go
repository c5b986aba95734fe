package join

import (
	"cmp"
	"slices"
	"strings"
)

// number gives node ranks to those who have none: the free ones, in the order of the
// engine's node ids where each of them has one, else of their hosts' names, then
// addresses; numbers within names count as numbers (node2 before node10). Only
// nodes that are alike in all of that, as several on one host, go by who came first.
func number(members []*Member, numNodes int) {
	taken, byID := make([]bool, numNodes), true
	var open []*Member
	taken[0] = true // node 0 does not dial
	for _, m := range members {
		if m.NodeRank >= 0 {
			taken[m.NodeRank] = true
			continue
		}
		open = append(open, m)
		byID = byID && m.Hello.NodeID != ""
	}
	slices.SortStableFunc(open, func(a, b *Member) int { return before(a, b, byID) })
	next := 0
	for _, m := range open {
		for taken[next] {
			next++
		}
		m.NodeRank, taken[next] = next, true
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Compare(a.NodeRank, b.NodeRank) })
}

func before(a, b *Member, byID bool) int {
	byHost := cmp.Or(natural(a.Hello.Host, b.Hello.Host), natural(a.Hello.Addr, b.Hello.Addr),
		a.Peer.Addr().Compare(b.Peer.Addr()))
	if byID {
		return cmp.Or(natural(a.Hello.NodeID, b.Hello.NodeID), byHost)
	}
	return byHost
}

// natural compares texts in which numbers count as such. Texts that it finds equal
// are.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := digits(x), digits(y)
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

// digits is how many digits a text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
