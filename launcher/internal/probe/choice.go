package probe

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"gorun/launcher/hosts"
)

// Node is a node of a job and what it reached.
type Node struct {
	Name string
	// Candidates are its addresses; it answers probes at Port on all of them.
	Candidates []Candidate
	Port       int
	// Free is a second port that it answers on if the user chose Port, else 0.
	Free int
	// Reached has, for a node other than node 0, the results of dialing node 0's addresses, by index into its Candidates.
	// Addresses that were not tried are absent.
	Reached map[int]Result
	// Peers has the results of dialing what PeerTargets returned.
	Peers map[Target]Result
}

// Options influence the choice.
type Options struct {
	PreferIPv6 bool // the user named the nodes by IPv6 addresses
	// Source is the option that named node 0's address, for messages: "--master-addr 10.0.0.1"; "" if none did.
	Source string
}

// Endpoint is where a node is in the network that connects the nodes.
type Endpoint struct {
	Addr netip.Addr
	// Interface carries the traffic to node 0's address; on node 0 it has that address. If it is unknown it is "" and the
	// fields below are unset.
	Interface string
	Kind      string // as in Candidate
	Mbps      int
	Device    bool
	// Others are other interfaces of the node that are up and have a global address. A library that picks an interface
	// by itself may pick one of them.
	Others []string
	// OtherFamily says that Interface has addresses of the other family (IPv4 or IPv6), too.
	OtherFamily bool
}

// Choice is the address and the interfaces that a job uses.
type Choice struct {
	// Addr is node 0's address, with a zone if it is link-local.
	Addr      netip.Addr
	Endpoints []Endpoint // by node
	Reason    string     // why this address, in one line
	// Warning names nodes that reach node 0 but not each other; "" if none exist.
	Warning string
	// Note names nodes whose interface has addresses of another family than Addr, too; "" if none exist.
	Note string
}

// Order returns the indexes of node 0's addresses in the order to try them: those that the user named, or else all,
// most plausible first. An address that other nodes have, too (docker0's), comes last; one that shares a network with
// many nodes comes early.
func Order(nodes []Node, options Options) []int {
	own := nodes[0].Candidates
	named := slices.ContainsFunc(own, func(c Candidate) bool { return c.Named })
	shared, neighbours := make([]bool, len(own)), make([]int, len(own))
	var order []int
	for i, c := range own {
		if c.Named || !named {
			order = append(order, i)
		}
		network, err := c.Addr.Prefix(c.Bits)
		for _, n := range nodes[1:] {
			shared[i] = shared[i] || slices.ContainsFunc(n.Candidates, func(o Candidate) bool { return o.Addr == c.Addr })
			if err == nil && slices.ContainsFunc(n.Candidates, func(o Candidate) bool { return network.Contains(o.Addr) }) {
				neighbours[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(
			trueFirst(!shared[i], !shared[j]),
			cmp.Compare(own[i].tier(), own[j].tier()),
			cmp.Compare(neighbours[j], neighbours[i]),
			comparePlausibility(own[i], own[j], options.PreferIPv6),
			cmp.Compare(own[j].Mbps, own[i].Mbps),
		)
	})
	return order
}

// FirstTry returns how many addresses of the order to try first: as many as are as plausible as the best, but few,
// because every node dials each of them.
func FirstTry(nodes []Node, order []int) int {
	limit := 3
	if len(nodes) > 256 {
		limit = 1
	}
	own := nodes[0].Candidates
	for i, index := range order {
		if i == limit || own[index].tier() != own[order[0]].tier() {
			return i
		}
	}
	return len(order)
}

// Agreed returns the indexes of node 0's addresses that every other node reached, the preferred one first.
func Agreed(nodes []Node, options Options) (agreed []int) {
	own := nodes[0].Candidates
	class := map[int]int{}
	for i, c := range own {
		var times []time.Duration
		for _, n := range nodes[1:] {
			r := n.Reached[i]
			if !r.OK() || needsZone(c.Addr) && r.Interface != c.Interface { // all nodes get the same text
				break
			}
			times = append(times, r.RTT)
		}
		if len(times) == len(nodes)-1 {
			agreed, class[i] = append(agreed, i), latencyClass(times)
		}
	}
	slices.SortStableFunc(agreed, func(i, j int) int {
		a, b := own[i], own[j]
		return cmp.Or(comparePlausibility(a, b, options.PreferIPv6), cmp.Compare(class[i], class[j]),
			cmp.Compare(b.Mbps, a.Mbps))
	})
	return agreed
}

// latencyClass is 0 for a median below 2 ms and one more for each doubling. Smaller differences are noise, and the same
// nodes should get the same address again.
func latencyClass(times []time.Duration) int {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return bits.Len64(uint64(times[len(times)/2] / (2 * time.Millisecond)))
}

// endpoint returns where a node is if node 0 uses its address index: at the address that the user named for the node,
// or else where its connection to node 0 came from.
func endpoint(nodes []Node, node, index int) Endpoint {
	n := &nodes[node]
	local := n.Reached[index]
	if node != 0 {
		index = slices.IndexFunc(n.Candidates, func(c Candidate) bool { return c.Named })
	}
	if index < 0 {
		return n.endpoint(local.Local, local.Interface)
	}
	return n.endpoint(n.Candidates[index].zoned(), n.Candidates[index].Interface)
}

func (n *Node) endpoint(addr netip.Addr, name string) Endpoint {
	e := Endpoint{Addr: addr, Interface: name}
	for _, c := range n.Candidates {
		switch {
		case name == "":
		case c.Interface == name:
			e.Kind, e.Mbps, e.Device = c.Kind, c.Mbps, c.Device
			e.OtherFamily = e.OtherFamily || c.global() && c.Addr.Is4() != addr.Unmap().Is4()
		case c.global() && !slices.Contains(e.Others, c.Interface):
			e.Others = append(e.Others, c.Interface)
		}
	}
	return e
}

// Choose decides by what the nodes reached. If no address of node 0 is reached by all other nodes, the error is an
// *UnreachedError.
func Choose(nodes []Node, options Options) (Choice, error) {
	agreed := Agreed(nodes, options)
	if len(agreed) == 0 {
		return Choice{}, &UnreachedError{nodes, options}
	}
	index, warning := agreed[0], gaps(nodes, agreed[0])
	for _, other := range agreed[1:] {
		if warning != "" && dialedPeers(nodes, other) && gaps(nodes, other) == "" {
			index, warning = other, ""
		}
	}
	choice := Choice{Warning: warning, Reason: reason(nodes, index, options)}
	for i := range nodes {
		choice.Endpoints = append(choice.Endpoints, endpoint(nodes, i, index))
	}
	choice.Addr = choice.Endpoints[0].Addr
	if choice.Addr.Is6() {
		choice.Note = familyNote(nodes, choice.Endpoints)
	}
	return choice, nil
}

// familyNote names nodes that have IPv4 addresses, too, if only IPv6 connects all nodes.
func familyNote(nodes []Node, endpoints []Endpoint) string {
	var both []Node
	for i, e := range endpoints {
		if e.OtherFamily {
			both = append(both, nodes[i])
		}
	}
	if both == nil {
		return ""
	}
	return fmt.Sprintf("the nodes connect by IPv6, and the interfaces of %s also have IPv4 addresses, which Gloo "+
		"prefers (NCCL does not, because gorun sets NCCL_SOCKET_FAMILY=AF_INET6 unless --tune=off): `gorun hosts "+
		"check` shows whether IPv4 works", nodeList(both))
}

func reason(nodes []Node, index int, options Options) string {
	var slowest time.Duration
	for _, n := range nodes[1:] {
		slowest = max(slowest, n.Reached[index].RTT)
	}
	who := fmt.Sprintf("the other %d nodes reach", len(nodes)-1)
	if len(nodes) == 2 {
		who = nodes[1].Name + " reaches"
	}
	c := nodes[0].Candidates[index]
	text := fmt.Sprintf("%s of %s: %s it within %s", c, nodes[0].Name, who,
		max(time.Millisecond, slowest.Round(time.Millisecond)))
	if c.Named && options.Source != "" {
		text += ", named by " + options.Source
	}
	return text
}

func nodeList(nodes []Node) string { return hosts.NodeList(names(nodes)) }

func names(nodes []Node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}
