package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorun/launcher/hosts"
)

// UnreachedError says that no address of node 0 is reached by all other nodes.
type UnreachedError struct {
	nodes []Node
	wish  Options
}

// maxRows bounds the addresses that a message lists.
const maxRows = 6

// Error is a few lines: what was tried, who was reached there, who reaches nothing.
func (e *UnreachedError) Error() string {
	var b strings.Builder
	zero := e.nodes[0].Name
	tried := e.tried()
	switch {
	case len(tried) == 0:
		return fmt.Sprintf("%s has no address that other nodes could reach", zero)
	case e.wish.Source != "" && e.nodes[0].Candidates[tried[0]].Named:
		fmt.Fprintf(&b, "not every other node reaches %s at %s:", zero, e.wish.Source)
	default:
		fmt.Fprintf(&b, "no address of %s is reached by every other node:", zero)
	}
	for i, index := range tried {
		if i == maxRows {
			fmt.Fprintf(&b, "\n  and %d more addresses", len(tried)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %-28s %s", e.nodes[0].Candidates[index], e.row(index))
	}
	if none := e.isolated(); len(none) > 0 && len(none) < len(e.nodes)-1 {
		fmt.Fprintf(&b, "\n%s: none of them is reached from there", folded(none))
	}
	return b.String()
}

// Hint says what can be done.
func (e *UnreachedError) Hint() string {
	if e.wish.Source != "" {
		return "leave " + e.wish.Source + " out to have every address tried, or let the hosts' firewalls pass TCP " +
			"between them"
	}
	return "let the hosts' firewalls pass TCP between them, or name an address of " + e.nodes[0].Name +
		" that all others reach: --master-addr ADDRESS, or ifhn=ADDRESS in the host file"
}

// tried are the indexes of node 0's addresses that some node dialed, in the order of
// plausibility; all of them where nobody dialed any.
func (e *UnreachedError) tried() []int {
	order := Order(e.nodes, e.wish)
	tried := slices.DeleteFunc(slices.Clone(order), func(index int) bool {
		return !slices.ContainsFunc(e.nodes[1:], func(n Node) bool { _, dialed := n.Reached[index]; return dialed })
	})
	if len(tried) == 0 {
		return order
	}
	return tried
}

// row says who reaches an address, and who does not for which reason.
func (e *UnreachedError) row(index int) string {
	const reached = "reached"
	address := e.nodes[0].Candidates[index]
	outcome := func(n Node) string {
		a, dialed := n.Reached[index]
		switch {
		case !dialed:
			return "not tried"
		case !a.OK():
			return a.Problem
		case isZoned(address.Addr) && a.Interface != address.Interface:
			return "only by " + a.Interface
		}
		return reached
	}
	alike := groups(e.nodes[1:], outcome)
	slices.SortStableFunc(alike, func(a, b []Node) int {
		return first(outcome(a[0]) == reached, outcome(b[0]) == reached)
	})
	words := make([]string, len(alike))
	for i, nodes := range alike {
		words[i] = outcome(nodes[0]) + " from " + folded(nodes)
	}
	return strings.Join(words, "; ")
}

// isolated are the nodes that reach no address of node 0.
func (e *UnreachedError) isolated() []Node {
	return slices.DeleteFunc(slices.Clone(e.nodes[1:]), func(n Node) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(n.Reached)), Result.OK)
	})
}

// folded are the names of nodes.
func folded(nodes []Node) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return hosts.Fold(names)
}
