package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/env/plan"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// manyRanks is the number from which on ranks that differ in nothing are one line.
const manyRanks = 16

// Columns of a rank's row that folding changes.
const (
	rankColumn  = 0
	hostColumn  = 1
	localColumn = 2
)

// rankRow is one rank's line.
func rankRow(p *job.Plan, rank int) []string {
	r := &p.Ranks[rank]
	n := &p.Nodes[r.Node]
	argv := r.Argv
	if argv == nil {
		argv = p.AppsOf(r.Node)[r.App].Argv
	}
	return []string{
		fmt.Sprint(r.Rank), n.Name, fmt.Sprint(r.LocalRank), orDash(r.GPU), orDash(cmp.Or(r.CPUs.String(), n.CPUs)),
		memory(*r), orDash(r.Reason), shellwords.Join(argv),
	}
}

// foldedRows are the lines of many ranks, with one for ranks that follow one another
// on their node and sit alike, and one for such ranks of hosts that are alike.
func foldedRows(p *job.Plan) (rows [][]string) {
	var before [][]string // of the hosts before that are alike
	var hosts []string
	var ranks [][]string // in each row, of each host
	flush := func() {
		for i, row := range before {
			row[rankColumn], row[hostColumn] = joinRanks(ranks[i]), job.FoldHosts(hosts)
			rows = append(rows, row)
		}
	}
	for node := range p.Nodes {
		own := nodeRows(p, node)
		if !slices.EqualFunc(before, own, func(a, b []string) bool {
			return slices.Equal(a[localColumn:], b[localColumn:])
		}) {
			flush()
			before, hosts, ranks = own, nil, make([][]string, len(own))
		}
		hosts = append(hosts, p.Nodes[node].Name)
		for i, row := range own {
			ranks[i] = append(ranks[i], row[rankColumn])
		}
	}
	flush()
	return rows
}

// nodeRows are the lines of one node's ranks.
func nodeRows(p *job.Plan, node int) (rows [][]string) {
	for i, rank := range p.Nodes[node].Ranks {
		row := rankRow(p, rank)
		last := len(rows) - 1
		if i > 0 && slices.Equal(rows[last][localColumn+1:], row[localColumn+1:]) && p.Nodes[node].Ranks[i-1]+1 == rank {
			rows[last][rankColumn] = through(rows[last][rankColumn], row[rankColumn])
			rows[last][localColumn] = through(rows[last][localColumn], row[localColumn])
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// through is a range of numbers with another one at its end.
func through(numbers, last string) string {
	first, _, _ := strings.Cut(numbers, "-")
	return first + "-" + last
}

// joinRanks writes the ranks of several hosts: "0-31" where each continues the one
// before, else "0,8,…,24".
func joinRanks(ranks []string) string {
	const most = 3
	joined, next := "", -1
	for _, text := range ranks {
		first, last := bounds(text)
		if joined != "" && first != next {
			if len(ranks) > most {
				return ranks[0] + "," + ranks[1] + ",…," + ranks[len(ranks)-1]
			}
			return strings.Join(ranks, ",")
		}
		if joined == "" {
			joined = text
		} else {
			joined = through(joined, fmt.Sprint(last))
		}
		next = last + 1
	}
	return joined
}

// bounds reads "3" or "3-7".
func bounds(text string) (first, last int) {
	if n, _ := fmt.Sscanf(text, "%d-%d", &first, &last); n < 2 {
		last = first
	}
	return first, last
}

// nodesVariables are those that the ranks of a node have in common and others not,
// each once. What is inherited is counted elsewhere.
func nodesVariables(p *job.Plan) (own []plan.Variable) {
	seen := make(map[string]bool)
	for _, n := range p.Nodes {
		for _, v := range n.Env {
			if v.Origin != plan.Inherited && !seen[v.Name] {
				own = append(own, v)
				seen[v.Name] = true
			}
		}
	}
	return own
}

// nodesValues are what the ranks of the first nodes have for such a variable.
func nodesValues(p *job.Plan, name string) string {
	var first [][]plan.Variable
	for _, n := range p.Nodes[:min(len(p.Nodes), shownFirst)] {
		first = append(first, n.Env)
	}
	return shown(first, name, len(p.Nodes)) + " (by host)"
}
