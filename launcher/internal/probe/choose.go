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
	// Candidates are its addresses, at all of which it answers probes on Port.
	Candidates []Candidate
	Port       int
	// Free is a port that nobody named at which it answers, too; 0 where Port is one.
	Free int
	// Reached has, for a node other than node 0, what became of dialing node 0's
	// addresses, each by its index in node 0's Candidates. An address without an Result was not
	// tried.
	Reached map[int]Result
	// Peers has what became of dialing what PeerTargets returned, by its indexes.
	Peers map[int]Result
}

// Options is what the choice is to take into account.
type Options struct {
	// PreferIPv6 is set where the user named the nodes by IPv6 addresses.
	PreferIPv6 bool
	// Source is how the user named node 0's address, for messages: "--master-addr
	// 10.0.0.1"; "" where nobody did.
	Source string
}

// Endpoint is where a node is in the network between the nodes.
type Endpoint struct {
	Addr netip.Addr
	// Interface carries the traffic to node 0's address; node 0's is the one that has
	// it. "" where that is not known, and then nothing of the rest is.
	Interface string
	Kind      string // this and the next as of a Candidate
	Mbps, MTU int
	Device    bool
	// Others are the node's other interfaces that are up and have addresses beyond the
	// link's own, the loopback left out: what a library that looks by itself may take.
	Others []string
	// OtherFamily says that Interface has addresses of the family that Addr is not of,
	// IPv4 or IPv6: what a library that looks by itself may take there.
	OtherFamily bool
}

// Choice is the decision.
type Choice struct {
	// Addr is node 0's address, with a zone if it is of the link alone.
	Addr      netip.Addr
	Endpoints []Endpoint
	// Reason says why this address, in a line.
	Reason string
	// Warning names nodes that reach node 0 but not each other, "" for none.
	Warning string
	// Note names nodes whose interface has addresses of another family than Addr's, too,
	// "" for none.
	Note string
}

// Order returns the indexes of node 0's addresses in the order in which they are
// tried: what the user named and nothing else where there is such, then by
// plausibility. An address that other nodes have as their own (docker0's) identifies
// nobody; one in whose network other nodes are, too, is likely the one that is meant.
func Order(nodes []Node, wish Options) []int {
	own := nodes[0].Candidates
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
			plausibility(own[i], own[j], wish.PreferIPv6),
			cmp.Compare(own[j].Mbps, own[i].Mbps),
		)
	})
	return order
}

// surroundings says of each address of node 0 whether another node has it, too, and
// how many other nodes have an address in its network.
func surroundings(nodes []Node) (twins []bool, neighbours []int) {
	twins, neighbours = make([]bool, len(nodes[0].Candidates)), make([]int, len(nodes[0].Candidates))
	for i, c := range nodes[0].Candidates {
		network, err := c.Addr.Prefix(c.Bits)
		for _, n := range nodes[1:] {
			twins[i] = twins[i] || slices.ContainsFunc(n.Candidates, func(o Candidate) bool { return o.Addr == c.Addr })
			if err == nil && slices.ContainsFunc(n.Candidates, func(o Candidate) bool { return network.Contains(o.Addr) }) {
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
	own := nodes[0].Candidates
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
func Agreed(nodes []Node, wish Options) []int {
	var agreed []int
	class := map[int]int{}
	for i, c := range nodes[0].Candidates {
		var times []time.Duration
		for _, n := range nodes[1:] {
			a := n.Reached[i]
			if !a.OK() || isZoned(c.Addr) && a.Interface != c.Interface { // one text has to do for all
				break
			}
			times = append(times, a.RTT)
		}
		if len(times) == len(nodes)-1 {
			agreed, class[i] = append(agreed, i), latencyClass(times)
		}
	}
	own := nodes[0].Candidates
	slices.SortStableFunc(agreed, func(i, j int) int {
		a, b := own[i], own[j]
		return cmp.Or(plausibility(a, b, wish.PreferIPv6), cmp.Compare(class[i], class[j]), cmp.Compare(b.Mbps, a.Mbps))
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
func place(nodes []Node, node, index int) Endpoint {
	n := &nodes[node]
	if node == 0 {
		c := n.Candidates[index]
		return n.at(zoned(c), c.Interface)
	}
	if i := slices.IndexFunc(n.Candidates, func(c Candidate) bool { return c.Named }); i >= 0 {
		return n.at(zoned(n.Candidates[i]), n.Candidates[i].Interface)
	}
	return n.at(n.Reached[index].Local, n.Reached[index].Interface)
}

// at is a place of a node with what is known of its interfaces.
func (n *Node) at(addr netip.Addr, name string) Endpoint {
	p := Endpoint{Addr: addr, Interface: name}
	for _, c := range n.Candidates {
		beyond := c.Kind != Loopback && !c.Addr.IsLinkLocalUnicast()
		switch {
		case name == "":
		case c.Interface == name:
			p.Kind, p.Mbps, p.MTU, p.Device = c.Kind, c.Mbps, c.MTU, c.Device
			p.OtherFamily = p.OtherFamily || beyond && c.Addr.Is4() != addr.Unmap().Is4()
		case beyond && !slices.Contains(p.Others, c.Interface):
			p.Others = append(p.Others, c.Interface)
		}
	}
	return p
}

// zoned is a candidate's address as a program on its node takes it.
func zoned(c Candidate) netip.Addr {
	if isZoned(c.Addr) {
		return c.Addr.WithZone(c.Interface)
	}
	return c.Addr
}

// peerPairs is up to how many nodes each one dials every other one in a job's start; of
// more, the next one, as rings do, and one far away, which is likely in another rack or
// network; of more than peerRings, the next one alone. Every node is dialed as often as
// it dials, so that a host that lets in nobody but node 0, or lets nothing out, is found.
const (
	peerPairs = 8
	peerRings = 256
)

// peers returns which nodes a node dials beside node 0, which all have dialed. It is
// among them where it answered at a port that the user named: ranks listen at others.
func peers(nodes []Node, node int) (peers []int) {
	n := len(nodes)
	if node != 0 && nodes[0].Free != 0 {
		peers = append(peers, 0)
	}
	for i := 1; i < n && n <= peerPairs; i++ {
		if i != node {
			peers = append(peers, i)
		}
	}
	if n <= peerPairs {
		return peers
	}
	steps := []int{1, n / 2}
	if n > peerRings {
		steps = steps[:1]
	}
	for _, step := range steps {
		if peer := (node + step) % n; peer != 0 {
			peers = append(peers, peer)
		}
	}
	return peers
}

// port is where other nodes than those that look for the store dial a node.
func (n *Node) port() int {
	if n.Free != 0 {
		return n.Free
	}
	return n.Port
}

// PeerTargets returns what a node dials so that more than node 0 is proven to be
// reached: its peers, as they are placed for each agreed address.
func PeerTargets(nodes []Node, agreed []int, node int) (targets []Target) {
	for _, index := range agreed {
		for _, peer := range peers(nodes, node) {
			targets = append(targets, Target{
				Node: peer, Addr: place(nodes, peer, index).Addr.WithZone(""),
				Port: nodes[peer].port(),
			})
		}
	}
	return targets
}

// peerAnswer is what became of a node's dialing a peer at its place for an agreed
// address, by the number of that.
func peerAnswer(nodes []Node, chosen, from, to int) (a Result, dialed bool) {
	all := peers(nodes, from)
	if at := slices.Index(all, to); at >= 0 {
		a, dialed = nodes[from].Peers[chosen*len(all)+at]
	}
	return a, dialed
}

// dialed reports whether nodes dialed their peers at the places for an agreed address.
func dialed(nodes []Node, chosen int) bool {
	for from := range nodes {
		for _, to := range peers(nodes, from) {
			if _, is := peerAnswer(nodes, chosen, from, to); is {
				return true
			}
		}
	}
	return false
}

// Choose decides by what the nodes reached. The error is an *UnreachedError when no
// address of node 0 is reached by all others.
func Choose(nodes []Node, wish Options) (Choice, error) {
	agreed := Agreed(nodes, wish)
	if len(agreed) == 0 {
		return Choice{}, &UnreachedError{nodes, wish}
	}
	chosen, warning := 0, gaps(nodes, agreed, 0)
	for i := range agreed {
		if (i == 0 || dialed(nodes, i)) && gaps(nodes, agreed, i) == "" {
			chosen, warning = i, ""
			break
		}
	}
	index := agreed[chosen]
	choice := Choice{Warning: warning, Reason: reason(nodes, index, wish)}
	for i := range nodes {
		choice.Endpoints = append(choice.Endpoints, place(nodes, i, index))
	}
	choice.Addr = choice.Endpoints[0].Addr
	if choice.Addr.Is6() {
		choice.Note = strays(nodes, choice.Endpoints)
	}
	return choice, nil
}

// strays names nodes that have IPv4 addresses, too, where IPv6 alone joins all.
func strays(nodes []Node, places []Endpoint) string {
	var both []Node
	for i, p := range places {
		if p.OtherFamily {
			both = append(both, nodes[i])
		}
	}
	if both == nil {
		return ""
	}
	return fmt.Sprintf("the nodes talk by IPv6, and the interfaces of %s have IPv4 addresses, too: Gloo takes those "+
		"(NCCL does not, by NCCL_SOCKET_FAMILY=AF_INET6, which gorun sets without --tune=off); gorun hosts check says "+
		"whether they lead anywhere", folded(both))
}

// gaps says which nodes do not reach which when an agreed address is chosen.
func gaps(nodes []Node, agreed []int, chosen int) string {
	var text []string
	for from := range nodes {
		for _, to := range peers(nodes, from) {
			if a, dialed := peerAnswer(nodes, chosen, from, to); dialed && !a.OK() {
				text = append(text, gap(nodes, agreed, chosen, from, to, a))
			}
		}
	}
	const most = 3
	switch more := len(text) - most; {
	case len(text) == 0:
		return ""
	case more == 1:
		text[most] = "and one more such pair"
	case more > 1:
		text = append(text[:most], fmt.Sprintf("and %d more such pairs", more))
	}
	return "all nodes reach " + nodes[0].Name + ", but " + strings.Join(text, ", ") +
		": programs whose ranks talk to each other will wait there; open TCP between the hosts, or name a network that all " +
		"are in by --master-addr; gorun hosts check looks further"
}

// gap says that a node does not reach another one.
func gap(nodes []Node, agreed []int, chosen, from, to int, a Result) string {
	p := place(nodes, to, agreed[chosen])
	text := fmt.Sprintf("%s does not reach %s at %s (%s", nodes[from].Name, nodes[to].Name, p.Addr, a.Problem)
	if to == 0 {
		return text + fmt.Sprintf(" at port %d, only at %d)", nodes[0].port(), nodes[0].Port)
	}
	if back, dialed := peerAnswer(nodes, chosen, to, from); from == 0 || dialed && back.OK() {
		text += ", the other way works"
	}
	return text + ")"
}

// reason says why an address was chosen.
func reason(nodes []Node, index int, wish Options) string {
	var slowest time.Duration
	for _, n := range nodes[1:] {
		slowest = max(slowest, n.Reached[index].RTT)
	}
	c := nodes[0].Candidates[index]
	text := fmt.Sprintf("%s of %s: the other %d nodes reach it within %s", c, nodes[0].Name, len(nodes)-1,
		rounded(slowest))
	if len(nodes) == 2 {
		text = fmt.Sprintf("%s of %s: %s reaches it within %s", c, nodes[0].Name, nodes[1].Name, rounded(slowest))
	}
	if c.Named && wish.Source != "" {
		text += ", named by " + wish.Source
	}
	return text
}

func rounded(d time.Duration) string {
	if d < time.Millisecond {
		return "1ms"
	}
	return d.Round(time.Millisecond).String()
}
