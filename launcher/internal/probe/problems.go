package probe

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
)

// Findings returns what is wrong with the network between the nodes, most severe first. Fixes are shell commands for
// the node that the finding is about, or reach another one through ssh.
func (s *Survey) Findings() []doctor.Finding {
	j := judge{Survey: s, paths: s.best()}
	j.unreachable()
	j.vanishingPackets()
	j.stalled()
	j.loss()
	j.deadIPv4()
	j.slowLinks(j.slowHosts())
	j.distant()
	j.deadNetworks()
	j.unusualInterfaces()
	return j.findings
}

// judge collects the findings of a survey.
type judge struct {
	*Survey
	paths    map[Pair]*Path // the best ones
	findings []doctor.Finding
}

func (j *judge) add(severity doctor.Severity, check string, nodes []int, text, advice, fix string) {
	j.findings = append(j.findings, doctor.Finding{
		Check: check, Severity: severity, Hosts: j.names(nodes), Text: text, Evidence: "measured between the hosts",
		Advice: advice, Fix: fix,
	})
}

func (j *judge) names(nodes []int) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = j.Nodes[n].Name
	}
	return names
}

// address describes where a path leads: "10.0.0.2 (eth0)".
func (j *judge) address(p *Path) string {
	if name := interfaceOf(p.Addr, j.Nodes[p.To].Candidates); name != "" {
		return p.Addr.WithZone("").String() + " (" + name + ")"
	}
	return p.Addr.String()
}

// remote describes the dialed end of a path: "n2 at 10.0.0.2 (eth0)".
func (j *judge) remote(p *Path) string { return j.Nodes[p.To].Name + " at " + j.address(p) }

// local describes a node's own end: "n1 (eth0, 10.0.0.1)".
func (j *judge) local(node int) string {
	e := j.Endpoints[node]
	if e.Interface == "" {
		return j.Nodes[node].Name
	}
	return fmt.Sprintf("%s (%s, %s)", j.Nodes[node].Name, e.Interface, e.Addr.WithZone(""))
}

// failure is why a path does not work, and whether its reverse does.
type failure struct {
	problem, otherPorts string
	reverse             bool
}

func (j *judge) failure(p *Path) failure {
	return failure{p.Result.Problem, p.OtherPorts, j.paths[p.reverse()].OK()}
}

// pathsOf returns the paths between a node and the others, in the order of the others.
func (j *judge) pathsOf(pair func(other int) Pair) (paths []*Path) {
	for other := range j.Nodes {
		if p := j.paths[pair(other)]; p != nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// unreachable reports nodes that no other reaches, once each, and then the other paths that fail, by dialing node.
func (j *judge) unreachable() {
	reported := map[Pair]bool{}
	for to := range j.Nodes {
		failed := j.pathsOf(func(from int) Pair { return Pair{from, to} })
		if len(failed) < 2 || slices.ContainsFunc(failed, func(p *Path) bool {
			return p.OK() || p.Result.Problem != failed[0].Result.Problem || p.OtherPorts != failed[0].OtherPorts
		}) {
			continue
		}
		isolated := !slices.ContainsFunc(j.pathsOf(func(other int) Pair { return Pair{to, other} }), (*Path).OK)
		text := fmt.Sprintf("no other host reaches it at %s: %s; its own connections to others work", j.address(failed[0]),
			explain(failed[0]))
		if isolated {
			text = fmt.Sprintf("no other host reaches it at %s, and it reaches no other host: %s", j.address(failed[0]),
				explain(failed[0]))
		}
		j.blocked(to, text, failed[0])
		for _, p := range failed {
			reported[p.Pair], reported[p.reverse()] = true, reported[p.reverse()] || isolated
		}
	}
	for from := range j.Nodes {
		failed := slices.DeleteFunc(j.pathsOf(func(to int) Pair { return Pair{from, to} }), func(p *Path) bool {
			return p.OK() || reported[p.Pair]
		})
		for _, alike := range groupBy(failed, j.failure) {
			j.blockedFrom(from, alike)
		}
	}
}

// blockedFrom reports that a node does not reach some others, for one reason.
func (j *judge) blockedFrom(node int, failed []*Path) {
	const limit = 3
	var others []string
	for _, p := range failed[:min(limit, len(failed))] {
		others = append(others, j.remote(p))
	}
	if more := len(failed) - limit; more > 0 {
		others = append(others, fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("it cannot reach %s by TCP: %s", strings.Join(others, ", "), explain(failed[0]))
	if e := j.Endpoints[node]; e.Interface != "" {
		text = fmt.Sprintf("by %s (%s) %s", e.Interface, e.Addr.WithZone(""), text)
	}
	if j.failure(failed[0]).reverse {
		text += "; the reverse works"
	}
	j.blocked(node, text, failed[0])
}

// explain returns why a path failed, and what that means.
func explain(p *Path) string {
	port := fmt.Sprintf(" at port %d", p.Port)
	switch p.Result.Problem {
	case noAnswer:
		switch p.OtherPorts {
		case PortsOpen:
			return noAnswer + port + ", though port 22 answers: a firewall lets only some ports pass"
		case PortsClosed:
			return noAnswer + port +
				", though the host refuses connections to other ports: a firewall drops this one"
		case PortsFiltered:
			return noAnswer + ", nor at other ports: there is no route, or a firewall drops everything"
		}
	case refused:
		return refused + port + ", though gorun listens there: a firewall rejects it, or another host has the address"
	case unreachable:
		if p.OtherPorts == PortsOpen {
			return unreachable + port + ", though port 22 answers: a firewall rejects all but some ports"
		}
		return unreachable + ": a router or firewall reports it, or no host in its network has the address"
	}
	return p.Result.Problem
}

// blocked reports a path that does not work as a problem of a node, with what to do about it.
func (j *judge) blocked(node int, text string, p *Path) {
	const showRules = "sudo nft list ruleset || sudo iptables-save" // the host may have either
	nodes, advice := []int{node}, "open all TCP ports between the hosts in firewalls: ranks listen on random ports"
	hint := j.runOn(p.From, nodes, "ip route get "+j.destination(p))
	switch {
	case p.OtherPorts == PortsOpen || p.OtherPorts == PortsClosed || p.Result.Problem == refused:
		hint = j.runOn(p.To, nodes, showRules)
	case p.Result.Problem == forbidden:
		advice = "let the firewall of " + j.Nodes[p.From].Name + " pass outgoing TCP connections"
		hint = j.runOn(p.From, nodes, showRules)
	}
	j.add(doctor.Error, doctor.Unreachable, nodes, text, advice, hint)
}

// between describes a set of paths, and returns the nodes that they are a problem of: the one that all have in common
// if there are more than two, or else all.
func (j *judge) between(paths []*Path) (nodes []int, text string) {
	for _, p := range paths {
		nodes = append(nodes, p.From, p.To)
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 2 {
		return nodes, fmt.Sprintf("between %s and %s", j.local(nodes[0]), j.local(nodes[1]))
	}
	for _, node := range []int{paths[0].From, paths[0].To} {
		if !slices.ContainsFunc(paths, func(p *Path) bool { return p.From != node && p.To != node }) {
			others := slices.DeleteFunc(nodes, func(n int) bool { return n == node })
			return []int{node}, fmt.Sprintf("between %s and %s", j.local(node), hosts.NodeList(j.names(others)))
		}
	}
	return nodes, fmt.Sprintf("on %d paths between them, the first from %s to %s", len(paths), j.local(paths[0].From),
		j.remote(paths[0]))
}
