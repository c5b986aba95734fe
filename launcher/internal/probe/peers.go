package probe

import (
	"fmt"
	"strings"
)

// Before a job starts, up to maxAllPeers nodes dial each other. Of more, each dials the next node, as rings do, and one
// far away, which is likely in another rack or network; of more than maxFarPeers only the next. Every node is dialed as
// often as it dials, so that a host which accepts only node 0, or blocks outgoing connections, is found.
const (
	maxAllPeers = 8
	maxFarPeers = 256
)

// peers returns the nodes that a node dials beside node 0, which all have dialed. Node 0 is among them if it answered
// on a port that the user chose: ranks listen on others.
func peers(nodes []Node, node int) (peers []int) {
	n := len(nodes)
	if node != 0 && nodes[0].Free != 0 {
		peers = append(peers, 0)
	}
	var others []int
	switch {
	case n <= maxAllPeers:
		for i := range n {
			others = append(others, i)
		}
	case n <= maxFarPeers:
		others = []int{(node + 1) % n, (node + n/2) % n}
	default:
		others = []int{(node + 1) % n}
	}
	for _, peer := range others {
		if peer != 0 && peer != node {
			peers = append(peers, peer)
		}
	}
	return peers
}

// peerPort returns the port on which other nodes dial a node, apart from the port of the store.
func (n *Node) peerPort() int {
	if n.Free != 0 {
		return n.Free
	}
	return n.Port
}

// peerTarget returns where peers dial a node if node 0 uses its address index.
func peerTarget(nodes []Node, peer, index int) Target {
	return Target{Node: peer, Addr: endpoint(nodes, peer, index).Addr.WithZone(""), Port: nodes[peer].peerPort()}
}

// PeerTargets returns what a node dials to check that the nodes reach each other and not only node 0: its peers, at
// their endpoints for each agreed address.
func PeerTargets(nodes []Node, agreed []int, node int) (targets []Target) {
	for _, index := range agreed {
		for _, peer := range peers(nodes, node) {
			targets = append(targets, peerTarget(nodes, peer, index))
		}
	}
	return targets
}

// peerResult returns the result of dialing a peer at its endpoint for node 0's address index.
func peerResult(nodes []Node, index, from, to int) (r Result, dialed bool) {
	r, dialed = nodes[from].Peers[peerTarget(nodes, to, index)]
	return r, dialed
}

// dialedPeers reports whether all nodes dialed their peers for node 0's address index.
func dialedPeers(nodes []Node, index int) bool {
	for from := range nodes {
		for _, to := range peers(nodes, from) {
			if _, dialed := peerResult(nodes, index, from, to); !dialed {
				return false
			}
		}
	}
	return true
}

// gaps describes which nodes do not reach which if node 0 uses its address index; "" if none exist.
func gaps(nodes []Node, index int) string {
	const limit = 3
	var texts []string
	for from := range nodes {
		for _, to := range peers(nodes, from) {
			if r, dialed := peerResult(nodes, index, from, to); dialed && !r.OK() {
				texts = append(texts, gap(nodes, index, from, to, r.Problem))
			}
		}
	}
	switch more := len(texts) - limit; {
	case len(texts) == 0:
		return ""
	case more == 1:
		texts[limit] = "and one more such pair"
	case more > 1:
		texts = append(texts[:limit], fmt.Sprintf("and %d more such pairs", more))
	}
	return "all nodes reach " + nodes[0].Name + ", but " + strings.Join(texts, ", ") +
		": ranks that connect to each other will hang; allow TCP between the hosts, or name a shared network with " +
		"--master-addr (`gorun hosts check` shows more)"
}

func gap(nodes []Node, index, from, to int, problem string) string {
	text := fmt.Sprintf("%s does not reach %s at %s (%s", nodes[from].Name, nodes[to].Name,
		endpoint(nodes, to, index).Addr, problem)
	if to == 0 {
		return text + fmt.Sprintf(" at port %d, only at %d)", nodes[0].peerPort(), nodes[0].Port)
	}
	if reverse, dialed := peerResult(nodes, index, to, from); from == 0 || dialed && reverse.OK() {
		text += "; the reverse works"
	}
	return text + ")"
}

// maxAllPartners is the number of nodes up to which each dials every other in a survey. Of more, a node dials those
// that are 1, 2, 4, 8 … after it, so that the cost stays N log N.
const maxAllPartners = 64

// Partners returns the nodes, of n, that a node dials in a survey.
func Partners(n, node int) (partners []int) {
	if n > maxAllPartners {
		for step := 1; step < n; step *= 2 {
			partners = append(partners, (node+step)%n)
		}
		return partners
	}
	for i := range n {
		if i != node {
			partners = append(partners, i)
		}
	}
	return partners
}
