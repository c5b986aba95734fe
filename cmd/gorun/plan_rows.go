package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// manyRanks is the number from which on ranks that differ in nothing are one line.
const manyRanks = 16

// rankRow is a line for one rank, or for several that follow one another on their node and sit alike, on one host or
// on several that are alike.
type rankRow struct {
	hosts  []string
	ranks  [][]int // of each host
	locals []int   // of any
	cells  []string
}

// rowOf is one rank's line.
func rowOf(p *job.Plan, rank int) rankRow {
	r := &p.Ranks[rank]
	n := &p.Nodes[r.Node]
	argv := r.Argv
	if argv == nil {
		argv = p.AppsOf(r.Node)[r.App].Argv
	}
	return rankRow{[]string{n.Name}, [][]int{{r.Rank}}, []int{r.LocalRank}, []string{
		orDash(r.GPU), orDash(cmp.Or(r.CPUs.String(), n.CPUs)), memory(*r), orDash(r.Reason), shellwords.Join(argv),
	}}
}

func (r rankRow) columns() []string {
	hosts := r.hosts[0]
	if len(r.hosts) > 1 {
		hosts = job.FoldHosts(r.hosts)
	}
	return append([]string{joinRanks(r.ranks), hosts, printable.Ranges(r.locals)}, r.cells...)
}

// foldedRows are the lines of many ranks.
func foldedRows(p *job.Plan) (rows []rankRow) {
	alike := func(a, b rankRow) bool { return slices.Equal(a.locals, b.locals) && slices.Equal(a.cells, b.cells) }
	var before []rankRow // of the hosts before that are alike
	for node := range p.Nodes {
		own := nodeRows(p, node)
		if !slices.EqualFunc(before, own, alike) {
			rows, before = append(rows, before...), own
			continue
		}
		for i := range own {
			before[i].hosts = append(before[i].hosts, own[i].hosts...)
			before[i].ranks = append(before[i].ranks, own[i].ranks...)
		}
	}
	return append(rows, before...)
}

// nodeRows are the lines of one node's ranks.
func nodeRows(p *job.Plan, node int) (rows []rankRow) {
	for i, rank := range p.Nodes[node].Ranks {
		row := rowOf(p, rank)
		if i > 0 && p.Nodes[node].Ranks[i-1]+1 == rank {
			if last := &rows[len(rows)-1]; slices.Equal(last.cells, row.cells) {
				last.ranks[0], last.locals = append(last.ranks[0], rank), append(last.locals, row.locals...)
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// joinRanks writes the ranks of several hosts: "0-31" where each continues the one
// before, else "0,8,…,24".
func joinRanks(ranks [][]int) string {
	const most = 3
	texts := make([]string, len(ranks))
	for i, own := range ranks {
		texts[i] = printable.Ranges(own)
	}
	switch all := slices.Concat(ranks...); {
	case slices.IsSorted(all) && all[len(all)-1]-all[0] == len(all)-1:
		return printable.Ranges(all)
	case len(texts) > most:
		return texts[0] + "," + texts[1] + ",…," + texts[len(texts)-1]
	}
	return strings.Join(texts, ",")
}

// ownVariables are those of some environments, each once; what is inherited by a node is counted elsewhere.
func ownVariables(environs [][]plan.Variable, but plan.Origin) (own []plan.Variable) {
	seen := make(map[string]bool)
	for _, environ := range environs {
		for _, v := range environ {
			if v.Origin != but && !seen[v.Name] {
				own, seen[v.Name] = append(own, v), true
			}
		}
	}
	return own
}

// shownFirst is how many ranks, or hosts, a row shows the values of.
const shownFirst = 4

// values are what the first environments have for a variable of their own.
func values(environs [][]plan.Variable, name string) string {
	var list []string
	for _, environ := range environs[:min(len(environs), shownFirst)] {
		text := "-"
		for _, v := range environ {
			if v.Name == name {
				text = v.Shown()
			}
		}
		list = append(list, text)
	}
	if len(environs) > shownFirst {
		list = append(list, "…")
	}
	return strings.Join(list, " ")
}

// memory says from which NUMA nodes a rank's memory is.
func memory(r job.Rank) string {
	if r.MemoryPolicy == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s", r.MemoryPolicy, r.Memories)
}
