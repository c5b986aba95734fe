package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnreachedError says that no address of node 0 is reached by all other nodes.
type UnreachedError struct {
	nodes   []Node
	options Options
}

// maxRows bounds the addresses that a message lists.
const maxRows = 6

// Error returns a few lines: which addresses were tried, which nodes reached them, and which reach none.
func (e *UnreachedError) Error() string {
	var b strings.Builder
	name, own := e.nodes[0].Name, e.nodes[0].Candidates
	tried := e.tried()
	switch {
	case len(tried) == 0:
		return fmt.Sprintf("%s has no address that other nodes can reach", name)
	case e.options.Source != "" && own[tried[0]].Named:
		fmt.Fprintf(&b, "some nodes cannot reach %s at %s:", name, e.options.Source)
	default:
		fmt.Fprintf(&b, "no address of %s is reachable from all nodes:", name)
	}
	for i, index := range tried {
		if i == maxRows {
			fmt.Fprintf(&b, "\n  and %d more addresses", len(tried)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %-28s %s", own[index], e.row(index))
	}
	if isolated := e.isolated(); len(isolated) > 0 && len(isolated) < len(e.nodes)-1 {
		fmt.Fprintf(&b, "\n%s cannot reach any of them", nodeList(isolated))
	}
	return b.String()
}

// Hint says what the user can do.
func (e *UnreachedError) Hint() string {
	if e.options.Source != "" {
		return "leave " + e.options.Source + " out, so that gorun tries every address, or let the hosts' firewalls " +
			"pass TCP between them"
	}
	return "let the hosts' firewalls pass TCP between them, or name an address of " + e.nodes[0].Name +
		" that all others reach: `--master-addr ADDRESS`, or ifhn=ADDRESS in the host file"
}

// tried returns the indexes of node 0's addresses that some node dialed, most plausible first; all of them if none was.
func (e *UnreachedError) tried() []int {
	order := Order(e.nodes, e.options)
	tried := slices.DeleteFunc(slices.Clone(order), func(index int) bool {
		return !slices.ContainsFunc(e.nodes[1:], func(n Node) bool { _, dialed := n.Reached[index]; return dialed })
	})
	if len(tried) == 0 {
		return order
	}
	return tried
}

// row says which nodes reach an address, and why the others do not.
func (e *UnreachedError) row(index int) string {
	const reached = "reached"
	address := e.nodes[0].Candidates[index]
	outcome := func(n Node) string {
		r, dialed := n.Reached[index]
		switch {
		case !dialed:
			return "not tried"
		case !r.OK():
			return r.Problem
		case needsZone(address.Addr) && r.Interface != address.Interface:
			return "only over " + r.Interface
		}
		return reached
	}
	groups := groupBy(e.nodes[1:], outcome)
	slices.SortStableFunc(groups, func(a, b []Node) int {
		return trueFirst(outcome(a[0]) == reached, outcome(b[0]) == reached)
	})
	var parts []string
	for _, nodes := range groups {
		parts = append(parts, outcome(nodes[0])+" from "+nodeList(nodes))
	}
	return strings.Join(parts, "; ")
}

// isolated returns the nodes that reach no address of node 0.
func (e *UnreachedError) isolated() []Node {
	return slices.DeleteFunc(slices.Clone(e.nodes[1:]), func(n Node) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(n.Reached)), Result.OK)
	})
}

// groupBy groups elements with the same key, in the order of the first element of each group.
func groupBy[T any, K comparable](all []T, key func(T) K) (groups [][]T) {
	index := map[K]int{}
	for _, one := range all {
		i, known := index[key(one)]
		if !known {
			i = len(groups)
			index[key(one)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], one)
	}
	return groups
}
