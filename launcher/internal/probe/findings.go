package probe

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
)

// Names of what a flaw is found by.
const (
	CheckReach     = "reach"
	CheckMTU       = "mtu"
	CheckLoss      = "loss"
	CheckSpeed     = "speed"
	CheckInterface = "interface"
)

// Problems says what is wrong, or strange, with the network between the nodes, the worst first. Hints are
// for a shell on the node of whom they are said, or go to the right node by ssh.
func (s *Survey) Problems() []doctor.Problem {
	j := judge{Survey: s, found: map[Pair]*Path{}}
	for _, w := range s.Paths {
		if old := j.found[w.Pair]; !w.Alternate && !old.OK() {
			j.found[w.Pair] = w
		}
	}
	j.reach()
	j.vanishing()
	j.stalled()
	j.loss()
	j.families()
	j.sizes()
	j.speeds()
	j.asides()
	j.kinds()
	return j.flaws
}

// judge collects the flaws of a survey.
type judge struct {
	*Survey
	// found are the ways that were tried at the places that count: of several addresses the one
	// that works.
	found map[Pair]*Path
	flaws []doctor.Problem
}

// flaw notes one of some nodes.
func (j *judge) flaw(check string, nodes []int, text, advice, hint string) {
	j.flaws = append(j.flaws, doctor.Problem{Check: check, Hosts: j.names(nodes), Text: text, Advice: advice, Hint: hint})
}

// remark notes one with which jobs run all the same.
func (j *judge) remark(check string, nodes []int, text, advice, hint string) {
	j.flaw(check, nodes, text, advice, hint)
	j.flaws[len(j.flaws)-1].Note = true
}

// names are those of nodes.
func (j *judge) names(nodes []int) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = j.Names[n]
	}
	return names
}

// at is a node with the address and the interface by which others know it: "n2 at
// 10.0.0.2 (eth0)".
func (j *judge) at(w *Path) string {
	return fmt.Sprintf("%s at %s", j.Names[w.To], j.address(w))
}

// address is the address that a way leads to, with its interface.
func (j *judge) address(w *Path) string {
	if name := interfaceOf(w.Addr, j.Candidates[w.To]); name != "" {
		return w.Addr.WithZone("").String() + " (" + name + ")"
	}
	return w.Addr.String()
}

// here is a node's own end: "n1 (eth0, 10.0.0.1)".
func (j *judge) here(node int) string {
	p := j.Endpoints[node]
	if p.Interface == "" {
		return j.Names[node]
	}
	return fmt.Sprintf("%s (%s, %s)", j.Names[node], p.Interface, p.Addr.WithZone(""))
}

// closing is why a way does not work, and whether the way back does.
type closing struct {
	problem, knock string
	back           bool
}

func (j *judge) closing(w *Path) closing {
	return closing{w.Result.Problem, w.OtherPorts, j.found[w.back()].OK()}
}

// row are the ways of a node that count, in the order of the nodes at their other ends.
func (j *judge) row(pair func(other int) Pair) (ways []*Path) {
	for other := range j.Names {
		if w := j.found[pair(other)]; w != nil {
			ways = append(ways, w)
		}
	}
	return ways
}

// reach says who does not reach whom: of a node that nobody reaches once, else for each
// node that does not reach others.
func (j *judge) reach() {
	told := map[Pair]bool{}
	for to := range j.Names {
		failed := j.row(func(from int) Pair { return Pair{from, to} })
		if len(failed) < 2 || slices.ContainsFunc(failed, func(w *Path) bool {
			return w.OK() || w.Result.Problem != failed[0].Result.Problem || w.OtherPorts != failed[0].OtherPorts
		}) {
			continue
		}
		cutOff := !slices.ContainsFunc(j.row(func(other int) Pair { return Pair{to, other} }), (*Path).OK)
		j.unreached(failed[0], cutOff)
		for _, w := range failed {
			told[w.Pair], told[w.back()] = true, told[w.back()] || cutOff
		}
	}
	for from := range j.Names {
		ways := j.row(func(to int) Pair { return Pair{from, to} })
		failed := slices.DeleteFunc(ways, func(w *Path) bool { return w.OK() || told[w.Pair] })
		for _, alike := range groups(failed, j.closing) {
			j.unreaching(alike)
		}
	}
}

// groups puts things that have the same key together, in the order in which the first of each came.
func groups[T any, K comparable](all []T, key func(T) K) (grouped [][]T) {
	place := map[K]int{}
	for _, one := range all {
		at, known := place[key(one)]
		if !known {
			at = len(grouped)
			place[key(one)], grouped = at, append(grouped, nil)
		}
		grouped[at] = append(grouped[at], one)
	}
	return grouped
}

// unreached is of a node that no other reaches.
func (j *judge) unreached(w *Path, cutOff bool) {
	text := fmt.Sprintf("no other host reaches it at %s: %s; what it begins itself works", j.address(w), explained(w))
	if cutOff {
		text = fmt.Sprintf("no other host reaches it at %s, and it reaches none: %s", j.address(w), explained(w))
	}
	j.closed(w.To, text, w)
}

// unreaching is of a node that does not reach some others.
func (j *judge) unreaching(failed []*Path) {
	const most = 3
	w := failed[0]
	var others []string
	for _, other := range failed[:min(most, len(failed))] {
		others = append(others, j.at(other))
	}
	if more := len(failed) - most; more > 0 {
		others = append(others, fmt.Sprintf("%d more", more))
	}
	by := ""
	if p := j.Endpoints[w.From]; p.Interface != "" {
		by = fmt.Sprintf("by %s (%s) ", p.Interface, p.Addr.WithZone(""))
	}
	text := fmt.Sprintf("%sit does not reach %s by TCP: %s", by, strings.Join(others, ", "), explained(w))
	if j.closing(w).back {
		text += "; the other way works"
	}
	j.closed(w.From, text, w)
}

// explained is a problem with what it means.
func explained(w *Path) string {
	port := fmt.Sprintf(" at port %d", w.Port)
	switch w.Result.Problem {
	case noAnswer:
		switch w.OtherPorts {
		case PortsOpen:
			return noAnswer + port + ", though port 22 answers: a firewall lets only some ports pass"
		case PortsClosed:
			return noAnswer + port +
				", though the host is there and refuses other ports: a firewall drops what comes for this one"
		case PortsFiltered:
			return noAnswer + ", nor at other ports: there is no way, or a firewall drops everything"
		}
	case refused:
		return refused + port + ", though gorun listens there: a firewall rejects it, or another host has the address"
	case unreachable:
		if w.OtherPorts == PortsOpen {
			return unreachable + port + ", though port 22 answers: a firewall rejects all but some ports"
		}
		return unreachable + ": a router or a firewall says so, or nobody in its own network has the address"
	}
	return w.Result.Problem
}

// closed says of a node that a way does not work, and what to do about it.
func (j *judge) closed(node int, text string, w *Path) {
	const showRules = "sudo nft list ruleset || sudo iptables-save" // whichever tools the host has
	nodes, advice := []int{node}, "let the firewalls between the hosts pass TCP at all ports: ranks listen at random ones"
	hint := j.on(w.From, nodes, "ip route get "+j.dialed(w))
	switch {
	case w.OtherPorts == PortsOpen || w.OtherPorts == PortsClosed || w.Result.Problem == refused:
		hint = j.on(w.To, nodes, showRules)
	case w.Result.Problem == forbidden:
		advice, hint = "let the firewall of "+j.Names[w.From]+" pass what leaves it", j.on(w.From, nodes, showRules)
	}
	j.flaw(CheckReach, nodes, text, advice, hint)
}

// hub is the node that all of some ways have in common, -1: there is none. Of one pair
// nobody knows which of the two it is.
func hub(ways []*Path) int {
	if len(ends(ways)) < 3 {
		return -1
	}
	for _, node := range []int{ways[0].From, ways[0].To} {
		if !slices.ContainsFunc(ways, func(w *Path) bool { return w.From != node && w.To != node }) {
			return node
		}
	}
	return -1
}

// ends are the nodes of ways, each once, in their order.
func ends(ways []*Path) (nodes []int) {
	for _, w := range ways {
		nodes = append(nodes, w.From, w.To)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// between says which ways are meant: those of one node, or those between several.
func (j *judge) between(ways []*Path) (nodes []int, text string) {
	nodes = ends(ways)
	if h := hub(ways); h >= 0 {
		others := slices.DeleteFunc(nodes, func(n int) bool { return n == h })
		return []int{h}, fmt.Sprintf("between %s and %s", j.here(h), hosts.Fold(j.names(others)))
	}
	if len(nodes) == 2 {
		return nodes, fmt.Sprintf("between %s and %s", j.here(nodes[0]), j.here(nodes[1]))
	}
	return nodes, fmt.Sprintf("on %d ways between them, the first from %s to %s", len(ways), j.here(ways[0].From),
		j.at(ways[0]))
}
