package probe

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Node is what is known of one node of a job.
type Node struct {
	Name string
	// Own are its addresses, at all of which it answers probes on Port.
	Own  []Candidate
	Port int
	// Reached has, for a node other than node 0, what became of dialing node 0's
	// addresses, each by its index in node 0's Own: the Target of the Answer. An
	// address without an Answer was not tried.
	Reached []Answer
	// Next has what became of dialing the node after it, by the indexes of the
	// addresses that Agreed returned.
	Next []Answer
}

// Wish is what the choice is to take into account.
type Wish struct {
	// PreferIPv6 is set where the user named the nodes by IPv6 addresses.
	PreferIPv6 bool
	// Asked is how the user named node 0's address, for messages: "--master-addr
	// 10.0.0.1"; "" where nobody did.
	Asked string
	// Fold writes names of nodes for messages, nil joins them with commas.
	Fold func(names []string) string
}

// Place is where a node is in the network between the nodes.
type Place struct {
	Addr netip.Addr
	// Interface carries the traffic to node 0's address; node 0's is the one that has
	// it. "" where that is not known.
	Interface string
}

// Choice is the decision.
type Choice struct {
	// Addr is node 0's address, with a zone if it is of the link alone.
	Addr  netip.Addr
	Nodes []Place
	// Reason says why this address, in a line.
	Reason string
	// Warning names nodes that reach node 0 but not each other, "" for none.
	Warning string
}

// answer returns what became of dialing node 0's address with an index.
func (n *Node) answer(index int) (Answer, bool) {
	i := slices.IndexFunc(n.Reached, func(a Answer) bool { return a.Target == index })
	if i < 0 {
		return Answer{}, false
	}
	return n.Reached[i], true
}

// Order returns the indexes of node 0's addresses in the order in which they are
// tried: what the user named and nothing else where there is such, then by
// plausibility. An address that other nodes have as their own (docker0's) identifies
// nobody; one in whose network other nodes are, too, is likely the one that is meant.
func Order(nodes []Node, wish Wish) []int {
	own := nodes[0].Own
	named := slices.ContainsFunc(own, func(c Candidate) bool { return c.Named })
	var order []int
	for i, c := range own {
		if c.Named || !named {
			order = append(order, i)
		}
	}
	twins, neighbours := surroundings(nodes)
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(
			first(!twins[i], !twins[j]),
			cmp.Compare(own[i].tier(), own[j].tier()),
			cmp.Compare(neighbours[j], neighbours[i]),
			compare(own[i], own[j], wish.PreferIPv6),
		)
	})
	return order
}

// surroundings says of each address of node 0 whether another node has it, too, and
// how many other nodes have an address in its network.
func surroundings(nodes []Node) (twins []bool, neighbours []int) {
	twins, neighbours = make([]bool, len(nodes[0].Own)), make([]int, len(nodes[0].Own))
	for i, c := range nodes[0].Own {
		network, err := c.Addr.Prefix(c.Bits)
		for _, n := range nodes[1:] {
			twins[i] = twins[i] || slices.ContainsFunc(n.Own, func(o Candidate) bool { return o.Addr == c.Addr })
			if err == nil && slices.ContainsFunc(n.Own, func(o Candidate) bool { return network.Contains(o.Addr) }) {
				neighbours[i]++
			}
		}
	}
	return twins, neighbours
}

// FirstTry returns how many addresses of the order are tried at first: those that are
// as plausible as the best, and few, since every node dials each of them.
func FirstTry(nodes []Node, order []int) int {
	const few, many, manyNodes = 1, 3, 256
	own := nodes[0].Own
	most := many
	if len(nodes) > manyNodes {
		most = few
	}
	for i, index := range order {
		if i == most || own[index].tier() != own[order[0]].tier() {
			return i
		}
	}
	return len(order)
}

// Agreed returns the indexes of node 0's addresses that every other node has proven
// to reach, the preferred one first.
func Agreed(nodes []Node, wish Wish) []int {
	var agreed []int
	class := map[int]int{}
	for i, c := range nodes[0].Own {
		var times []time.Duration
		for j := range nodes[1:] {
			a, _ := nodes[1+j].answer(i)
			if !a.OK() || isZoned(c.Addr) && a.Interface != c.Interface { // one text has to do for all
				break
			}
			times = append(times, a.RTT)
		}
		if len(times) == len(nodes)-1 {
			agreed, class[i] = append(agreed, i), latencyClass(times)
		}
	}
	own := nodes[0].Own
	slices.SortStableFunc(agreed, func(i, j int) int {
		a, b := own[i], own[j]
		return cmp.Or(
			first(a.Named, b.Named),
			cmp.Compare(a.tier(), b.tier()),
			first(a.Addr.Is4() != wish.PreferIPv6, b.Addr.Is4() != wish.PreferIPv6),
			first(!a.Passing, !b.Passing),
			cmp.Compare(class[i], class[j]),
			cmp.Compare(b.Mbps, a.Mbps),
		)
	})
	return agreed
}

// latencyClass is 0 for a median below 2 ms, and one more for each doubling: what
// differs by less is noise, and the same nodes should get the same address again.
func latencyClass(times []time.Duration) int {
	if len(times) == 0 {
		return 0
	}
	times = slices.Sorted(slices.Values(times))
	return bits.Len64(uint64(times[len(times)/2] / (2 * time.Millisecond)))
}

// place returns where a node is when node 0's address with an index is chosen: by the
// address that the user named for the node, else by the route that its connection to
// node 0 took.
func place(nodes []Node, node, index int) Place {
	if node == 0 {
		c := nodes[0].Own[index]
		return Place{zoned(c), c.Interface}
	}
	n := &nodes[node]
	if i := slices.IndexFunc(n.Own, func(c Candidate) bool { return c.Named }); i >= 0 {
		return Place{zoned(n.Own[i]), n.Own[i].Interface}
	}
	a, _ := n.answer(index)
	return Place{a.Local, a.Interface}
}

// zoned is a candidate's address as a program on its node takes it.
func zoned(c Candidate) netip.Addr {
	if isZoned(c.Addr) {
		return c.Addr.WithZone(c.Interface)
	}
	return c.Addr
}

// NextTargets returns what a node dials so that one more node than node 0 is proven
// to be reached: the node after it, as it is placed for each agreed address. The last
// node has nobody.
func NextTargets(nodes []Node, agreed []int, node int) []Target {
	if node+1 >= len(nodes) {
		return nil
	}
	targets := make([]Target, 0, len(agreed))
	for _, index := range agreed {
		targets = append(targets, Target{node + 1, place(nodes, node+1, index).Addr.WithZone(""), nodes[node+1].Port})
	}
	return targets
}

// Choose decides by what the nodes reached. The error is an *UnreachedError when no
// address of node 0 is reached by all others.
func Choose(nodes []Node, wish Wish) (Choice, error) {
	agreed := Agreed(nodes, wish)
	if len(agreed) == 0 {
		return Choice{}, &UnreachedError{nodes, wish}
	}
	chosen, warning := 0, gaps(nodes, agreed, 0, wish)
	for i := range agreed {
		if gaps(nodes, agreed, i, wish) == "" {
			chosen, warning = i, ""
			break
		}
	}
	index := agreed[chosen]
	choice := Choice{Warning: warning, Reason: reason(nodes, index, wish)}
	for i := range nodes {
		choice.Nodes = append(choice.Nodes, place(nodes, i, index))
	}
	choice.Addr = choice.Nodes[0].Addr
	return choice, nil
}

// gaps says which nodes do not reach the one after them when an agreed address is
// chosen.
func gaps(nodes []Node, agreed []int, chosen int, wish Wish) string {
	var text []string
	for i := range nodes[:len(nodes)-1] {
		at := slices.IndexFunc(nodes[i].Next, func(a Answer) bool { return a.Target == chosen })
		if at < 0 || nodes[i].Next[at].OK() {
			continue
		}
		p := place(nodes, i+1, agreed[chosen])
		text = append(text, fmt.Sprintf("%s does not reach %s at %s (%s)", nodes[i].Name, nodes[i+1].Name, p.Addr, nodes[i].Next[at].Problem))
	}
	const most = 3
	if more := len(text) - most; more > 0 {
		text = append(text[:most], fmt.Sprintf("%d more such pairs", more))
	}
	if len(text) == 0 {
		return ""
	}
	return "all nodes reach " + nodes[0].Name + ", but " + strings.Join(text, ", ") + ": programs whose ranks talk to each other will wait there; open TCP between the hosts, or name a network that all are in by --master-addr"
}

// reason says why an address was chosen.
func reason(nodes []Node, index int, wish Wish) string {
	var slowest time.Duration
	for i := range nodes[1:] {
		a, _ := nodes[1+i].answer(index)
		slowest = max(slowest, a.RTT)
	}
	c := nodes[0].Own[index]
	text := fmt.Sprintf("%s of %s: the other %d nodes reach it within %s", c, nodes[0].Name, len(nodes)-1, rounded(slowest))
	if len(nodes) == 2 {
		text = fmt.Sprintf("%s of %s: %s reaches it within %s", c, nodes[0].Name, nodes[1].Name, rounded(slowest))
	}
	if c.Named && wish.Asked != "" {
		text += ", named by " + wish.Asked
	}
	return text
}

func rounded(d time.Duration) string {
	if d < time.Millisecond {
		return "1ms"
	}
	return d.Round(time.Millisecond).String()
}
