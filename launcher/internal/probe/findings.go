package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Finding is something that is wrong, or strange, with the network between nodes.
type Finding struct {
	// Check is what was looked at: "reach", "mtu", "loss", "speed", "interface".
	Check string
	Nodes []int // whom it is said of
	Text  string
	// Advice is what to do, in words; "" where the hint says it.
	Advice string
	// Hint is a command that shows more, or repairs it: for a shell on the node of whom it
	// is said, or one that goes to the right node by ssh.
	Hint string
	// Remark says that jobs run all the same.
	Remark bool
}

// Names of Checks.
const (
	CheckReach     = "reach"
	CheckMTU       = "mtu"
	CheckLoss      = "loss"
	CheckSpeed     = "speed"
	CheckInterface = "interface"
)

// Findings says what is wrong, the worst first. Fold writes lists of names, nil: joined
// with commas.
func (s *Survey) Findings(fold func(names []string) string) (all []Finding) {
	j := judge{s, fold}
	if fold == nil {
		j.fold = (&UnreachedError{}).fold
	}
	all = append(all, j.reach()...)
	all = append(all, j.vanishing()...)
	all = append(all, j.stalled()...)
	all = append(all, j.loss()...)
	all = append(all, j.families()...)
	all = append(all, j.sizes()...)
	all = append(all, j.speeds()...)
	all = append(all, j.asides()...)
	return append(all, j.kinds()...)
}

type judge struct {
	*Survey
	fold func(names []string) string
}

// names are those of nodes.
func (j *judge) names(nodes []int) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = j.Names[n]
	}
	return j.fold(names)
}

// at is a node with the address and the interface by which others know it: "n2 at
// 10.0.0.2 (eth0)".
func (j *judge) at(node int, addr netip.Addr) string {
	return fmt.Sprintf("%s at %s", j.Names[node], j.address(node, addr))
}

// address is an address of a node with its interface.
func (j *judge) address(node int, addr netip.Addr) string {
	if name := interfaceOf(addr, j.Own[node]); name != "" {
		return addr.WithZone("").String() + " (" + name + ")"
	}
	return addr.String()
}

// here is a node's own end: "n1 (eth0, 10.0.0.1)".
func (j *judge) here(node int) string {
	p := j.Places[node]
	if p.Interface == "" {
		return j.Names[node]
	}
	return fmt.Sprintf("%s (%s, %s)", j.Names[node], p.Interface, p.Addr.WithZone(""))
}

// found are the ways that were tried at the places that count, by pair: of several
// addresses the one that works.
func (j *judge) found() map[Pair]*Way {
	best := map[Pair]*Way{}
	for i := range j.Ways {
		w := &j.Ways[i]
		if old := best[w.Pair]; !w.Aside && (old == nil || !old.OK()) {
			best[w.Pair] = w
		}
	}
	return best
}

// reach says who does not reach whom: of a node that nobody reaches once, else for each
// node that does not reach others.
func (j *judge) reach() (all []Finding) {
	ways := j.found()
	told := map[Pair]bool{}
	for to := range j.Names {
		if failed := j.fromAll(ways, to); len(failed) > 1 {
			all = append(all, j.unreached(ways, to, failed))
			for _, w := range failed {
				told[w.Pair] = true
				if back := ways[Pair{to, w.From}]; back != nil && !back.OK() && j.cutOff(ways, to) {
					told[back.Pair] = true
				}
			}
		}
	}
	for from := range j.Names {
		for _, same := range j.alike(ways, from, told) {
			all = append(all, j.unreaching(ways, from, same))
		}
	}
	return all
}

// fromAll are the ways to a node where none of them works, for the same reason.
func (j *judge) fromAll(ways map[Pair]*Way, to int) (failed []*Way) {
	for from := range j.Names {
		w := ways[Pair{from, to}]
		switch {
		case w == nil:
		case w.OK(), len(failed) > 0 && (w.Answer.Problem != failed[0].Answer.Problem || w.Knock != failed[0].Knock):
			return nil
		default:
			failed = append(failed, w)
		}
	}
	return failed
}

// cutOff reports whether a node reaches nobody.
func (j *judge) cutOff(ways map[Pair]*Way, node int) bool {
	for _, w := range ways {
		if w.From == node && w.OK() {
			return false
		}
	}
	return true
}

// unreached is of a node that no other reaches.
func (j *judge) unreached(ways map[Pair]*Way, node int, failed []*Way) Finding {
	w := failed[0]
	text := fmt.Sprintf("no other host reaches it at %s: %s", j.address(node, w.Addr), explained(w))
	if j.cutOff(ways, node) {
		text = fmt.Sprintf("no other host reaches it at %s, and it reaches none: %s", j.address(node, w.Addr), explained(w))
	} else {
		text += "; what it begins itself works"
	}
	return j.complete(Finding{Check: CheckReach, Nodes: []int{node}, Text: text}, w)
}

// alike are the ways of a node that do not work, those with the same reason together.
func (j *judge) alike(ways map[Pair]*Way, from int, told map[Pair]bool) (groups [][]*Way) {
	for to := range j.Names {
		w := ways[Pair{from, to}]
		if w == nil || w.OK() || told[w.Pair] {
			continue
		}
		back := ways[Pair{to, from}]
		i := slices.IndexFunc(groups, func(g []*Way) bool {
			return g[0].Answer.Problem == w.Answer.Problem && g[0].Knock == w.Knock &&
				works(ways[Pair{g[0].To, from}]) == works(back)
		})
		if i < 0 {
			groups = append(groups, []*Way{w})
		} else {
			groups[i] = append(groups[i], w)
		}
	}
	return groups
}

func works(w *Way) bool { return w != nil && w.OK() }

// unreaching is of a node that does not reach some others.
func (j *judge) unreaching(ways map[Pair]*Way, from int, failed []*Way) Finding {
	const most = 3
	var others []string
	for _, w := range failed[:min(most, len(failed))] {
		others = append(others, j.at(w.To, w.Addr))
	}
	if more := len(failed) - most; more > 0 {
		others = append(others, fmt.Sprintf("%d more", more))
	}
	by := ""
	if p := j.Places[from]; p.Interface != "" {
		by = fmt.Sprintf("by %s (%s) ", p.Interface, p.Addr.WithZone(""))
	}
	text := fmt.Sprintf("%sit does not reach %s by TCP: %s", by, strings.Join(others, ", "), explained(failed[0]))
	if works(ways[Pair{failed[0].To, from}]) {
		text += "; the other way works"
	}
	return j.complete(Finding{Check: CheckReach, Nodes: []int{from}, Text: text}, failed[0])
}

// explained is a problem with what it means.
func explained(w *Way) string {
	port := fmt.Sprintf(" at port %d", w.Port)
	switch w.Answer.Problem {
	case noAnswer:
		switch w.Knock {
		case KnockAnswers:
			return noAnswer + port + ", though port 22 answers: a firewall lets only some ports pass"
		case KnockRefuses:
			return noAnswer + port +
				", though the host is there and refuses other ports: a firewall drops what comes for this one"
		case KnockSilent:
			return noAnswer + ", nor at other ports: there is no way, or a firewall drops everything"
		}
		return noAnswer
	case refused:
		return refused + port + ", though gorun listens there: a firewall rejects it, or another host has the address"
	case unreachable:
		if w.Knock == KnockAnswers {
			return unreachable + port + ", though port 22 answers: a firewall rejects all but some ports"
		}
		return unreachable + ": a router or a firewall says so, or nobody in its own network has the address"
	}
	return w.Answer.Problem
}

// passAll is what to do about firewalls.
const passAll = "let the firewalls between the hosts pass TCP at all ports: ranks listen at random ones"

// showRules shows a host's firewall, whichever tools it has.
const showRules = "sudo nft list ruleset || sudo iptables-save"

// complete adds to a finding of a way that does not work what to do about it.
func (j *judge) complete(f Finding, w *Way) Finding {
	switch {
	case w.Knock == KnockAnswers || w.Knock == KnockRefuses || w.Answer.Problem == refused:
		f.Advice, f.Hint = passAll, j.on(w.To, f.Nodes, showRules)
	case w.Answer.Problem == forbidden:
		f.Advice, f.Hint = "let the firewall of "+j.Names[w.From]+" pass what leaves it", j.on(w.From, f.Nodes, showRules)
	default:
		f.Advice, f.Hint = passAll, j.on(w.From, f.Nodes, "ip route get "+j.dialed(w))
	}
	return f
}

// hub is the node that all of some ways have in common, -1: there is none. Of one pair
// nobody knows which of the two it is.
func hub(ways []*Way) int {
	pairs := map[Pair]bool{}
	for _, w := range ways {
		pairs[w.ends()] = true
	}
	if len(pairs) < 2 {
		return -1
	}
	for _, node := range []int{ways[0].From, ways[0].To} {
		if !slices.ContainsFunc(ways, func(w *Way) bool { return w.From != node && w.To != node }) {
			return node
		}
	}
	return -1
}

// ends are the nodes of ways, each once, in their order.
func ends(ways []*Way) (nodes []int) {
	for _, w := range ways {
		nodes = append(nodes, w.From, w.To)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// between says which ways are meant: those of one node, or those between several.
func (j *judge) between(ways []*Way) (nodes []int, text string) {
	if h := hub(ways); h >= 0 {
		others := slices.DeleteFunc(ends(ways), func(n int) bool { return n == h })
		return []int{h}, fmt.Sprintf("between %s and %s", j.here(h), j.names(others))
	}
	nodes = ends(ways)
	if len(nodes) == 2 {
		return nodes, fmt.Sprintf("between %s and %s", j.here(nodes[0]), j.here(nodes[1]))
	}
	return nodes, fmt.Sprintf("on %d ways between them, the first from %s to %s", len(ways), j.here(ways[0].From),
		j.at(ways[0].To, ways[0].Addr))
}
