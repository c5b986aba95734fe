package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorun/cmd/gorun/internal/show"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// writePlan prints what would start, as tables or as JSON. The same spec on the same host prints the same bytes.
func writePlan(w io.Writer, p *job.Plan, asJSON bool) error {
	if asJSON {
		return show.JSON(w, maskSecrets(*p))
	}
	_, err := io.WriteString(w, show.Table(jobRows(p), 0)+"\n"+rankTable(p)+"\n"+show.Table(variableRows(p), 0))
	return err
}

func maskSecrets(p job.Plan) *job.Plan {
	mask := func(vars []plan.Variable) []plan.Variable {
		shown := slices.Clone(vars)
		for i := range shown {
			shown[i].Value = shown[i].Shown()
		}
		return shown
	}
	p.Common, p.Ranks, p.Nodes = mask(p.Common), slices.Clone(p.Ranks), slices.Clone(p.Nodes)
	for i := range p.Nodes {
		p.Nodes[i].Env = mask(p.Nodes[i].Env)
	}
	for i := range p.Ranks {
		p.Ranks[i].Env = mask(p.Ranks[i].Env)
	}
	return &p
}

func jobRows(p *job.Plan) [][]string {
	rows := [][]string{
		{"ranks", p.Why},
		{"store", fmt.Sprintf("%s:%s", p.Store.Addr, p.Store.Port), "(" + p.Store.Why + ")"},
	}
	for _, app := range p.Apps {
		rows = append(rows, []string{"program", shellwords.Join(app.Argv), "(" + app.Kind + ")"})
		if app.Dir != "" {
			rows = append(rows, []string{"directory", app.Dir})
		}
	}
	rows = append(rows, nodeRows(p)...)
	rows = append(rows, []string{"mpi", worlds(p), "(" + cmp.Or(p.MPIWhy, "--mpi="+p.MPI.String()) + ")"},
		[]string{"stdin", p.Stdin})
	if p.Logs != nil {
		rows = append(rows, []string{"logs", p.Logs.Dir})
	}
	ending := fmt.Sprintf("ranks have %s to end (--grace)", p.Grace)
	if p.Timeout > 0 {
		ending += fmt.Sprintf(", the job has %s (--timeout)", p.Timeout)
	}
	if p.HangTimeout > 0 {
		ending += fmt.Sprintf(", it hangs after %s of silence (--hang-timeout)", p.HangTimeout)
	}
	if p.MaxRestarts > 0 {
		ending += fmt.Sprintf(", it is restarted up to %d times (--max-restarts)", p.MaxRestarts)
	}
	return append(rows, []string{"ending", ending})
}

// worlds describes the job's MPI_COMM_WORLDs and the protocol that makes them.
func worlds(p *job.Plan) string {
	by := cmp.Or(p.MPI.Only(), "PMI or PMIx")
	switch n := len(p.Worlds); n {
	case 0:
		return "none"
	case 1:
		return "one MPI_COMM_WORLD by " + by
	default:
		return fmt.Sprintf("%d MPI_COMM_WORLDs, one for each program, by %s", n, by)
	}
}

// nodeRows lists the programs that some nodes start differently from the first node, and the hosts without ranks.
func nodeRows(p *job.Plan) (rows [][]string) {
	var kinds [][2]string // command line, kind
	hosts := make(map[string][]string)
	for _, n := range p.Nodes {
		for _, app := range n.Apps {
			line := shellwords.Join(app.Argv)
			if hosts[line] == nil {
				kinds = append(kinds, [2]string{line, app.Kind})
			}
			hosts[line] = append(hosts[line], n.Name)
		}
	}
	for _, k := range kinds {
		rows = append(rows, []string{"program", k[0], fmt.Sprintf("(%s, on %s)", k[1], job.HostRanges(hosts[k[0]]))})
	}
	if len(p.Unused) > 0 {
		rows = append(rows, []string{"left out", job.HostRanges(p.Unused), "(no rank is there)"})
	}
	return rows
}

// maxUnfolded is the largest number of ranks of which each has a row.
const maxUnfolded = 16

// rankTable lists where ranks run, and why there. In large jobs, ranks that differ in nothing share a row.
func rankTable(p *job.Plan) string {
	rows := [][]string{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "MEMORY", "PLACE", "PROGRAM"}}
	if len(p.Ranks) > maxUnfolded {
		for _, row := range foldRanks(p) {
			rows = append(rows, row.cells())
		}
	} else {
		for i := range p.Ranks {
			rows = append(rows, rankRowOf(p, i).cells())
		}
	}
	return show.Table(show.WithoutEmpty(rows, 5, 6), 0)
}

// rankRow is the row of one rank, or of successive ranks of a node that are placed alike, on one or several hosts.
type rankRow struct {
	hosts  []string
	ranks  [][]int // by host
	locals []int   // the same on each host
	shared []string
}

func rankRowOf(p *job.Plan, rank int) rankRow {
	r := &p.Ranks[rank]
	n := &p.Nodes[r.Node]
	argv := r.Argv
	if argv == nil {
		argv = p.AppsOf(r.Node)[r.App].Argv
	}
	memory := "-"
	if r.MemoryPolicy != 0 {
		memory = fmt.Sprintf("%s %s", r.MemoryPolicy, r.Memories)
	}
	return rankRow{[]string{n.Name}, [][]int{{r.Rank}}, []int{r.LocalRank}, []string{
		show.OrDash(r.GPU), show.OrDash(cmp.Or(r.CPUs.String(), n.CPUs)), memory, show.OrDash(r.Reason),
		shellwords.Join(argv),
	}}
}

func (r rankRow) cells() []string {
	hosts := r.hosts[0]
	if len(r.hosts) > 1 {
		hosts = job.HostRanges(r.hosts)
	}
	return append([]string{joinRanks(r.ranks), hosts, printable.Ranges(r.locals)}, r.shared...)
}

func foldRanks(p *job.Plan) (rows []rankRow) {
	alike := func(a, b rankRow) bool { return slices.Equal(a.locals, b.locals) && slices.Equal(a.shared, b.shared) }
	var previous []rankRow // of the preceding hosts, which are alike
	for node := range p.Nodes {
		own := foldNode(p, node)
		if !slices.EqualFunc(previous, own, alike) {
			rows, previous = append(rows, previous...), own
			continue
		}
		for i := range own {
			previous[i].hosts = append(previous[i].hosts, own[i].hosts...)
			previous[i].ranks = append(previous[i].ranks, own[i].ranks...)
		}
	}
	return append(rows, previous...)
}

func foldNode(p *job.Plan, node int) (rows []rankRow) {
	for i, rank := range p.Nodes[node].Ranks {
		row := rankRowOf(p, rank)
		if i > 0 && p.Nodes[node].Ranks[i-1]+1 == rank {
			if last := &rows[len(rows)-1]; slices.Equal(last.shared, row.shared) {
				last.ranks[0], last.locals = append(last.ranks[0], rank), append(last.locals, row.locals...)
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// joinRanks formats the ranks of several hosts: "0-31" if each continues the previous one, otherwise "0,8,…,24".
func joinRanks(ranks [][]int) string {
	const maxHosts = 3
	texts := make([]string, len(ranks))
	for i, own := range ranks {
		texts[i] = printable.Ranges(own)
	}
	switch all := slices.Concat(ranks...); {
	case slices.IsSorted(all) && all[len(all)-1]-all[0] == len(all)-1:
		return printable.Ranges(all)
	case len(texts) > maxHosts:
		return texts[0] + "," + texts[1] + ",…," + texts[len(texts)-1]
	}
	return strings.Join(texts, ",")
}

func variableRows(p *job.Plan) [][]string {
	rows := [][]string{{"VARIABLE", "VALUE", "FROM", "WHY"}}
	inherited := 0
	for _, v := range p.Common {
		if v.Origin == plan.Inherited && isSetting(v.Name) {
			inherited++
			continue
		}
		rows = append(rows, []string{v.Name, show.OrDash(v.Shown()), string(v.Origin), v.Reason})
	}
	nodes, ranks := environments(p)
	for _, v := range distinct(nodes, plan.Inherited) {
		rows = append(rows, []string{v.Name, firstValues(nodes, v.Name) + " (by host)", string(v.Origin), v.Reason})
	}
	for _, v := range distinct(ranks, "") {
		rows = append(rows, []string{v.Name, firstValues(ranks, v.Name), string(v.Origin), v.Reason})
	}
	for _, r := range p.Removed {
		rows = append(rows, []string{r.Name, "(removed)", "", r.Reason})
	}
	if inherited > 0 {
		rows = append(rows, []string{"", inheritedNote(inherited)})
	}
	if n := len(p.Withheld); n > 0 {
		rows = append(rows, []string{"", withheldNote(n)})
	}
	return rows
}

func inheritedNote(n int) string {
	return fmt.Sprintf("and %d inherited ones, unchanged (--json lists them)", n)
}

func withheldNote(n int) string {
	return fmt.Sprintf("other hosts do not get %d inherited ones (--json lists them as withheld, -x NAME sends one)", n)
}

// environments returns the variables that each node and each rank has for itself.
func environments(p *job.Plan) (nodes, ranks [][]plan.Variable) {
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Env)
	}
	for _, r := range p.Ranks {
		ranks = append(ranks, r.Env)
	}
	return nodes, ranks
}

// distinct returns the variables of all environments, each name once, except those of one origin.
func distinct(environments [][]plan.Variable, except plan.Origin) (list []plan.Variable) {
	seen := make(map[string]bool)
	for _, v := range slices.Concat(environments...) {
		if v.Origin != except && !seen[v.Name] {
			list, seen[v.Name] = append(list, v), true
		}
	}
	return list
}

// maxValues is the number of ranks or hosts whose values a row shows.
const maxValues = 4

// firstValues lists what the first environments have for a variable.
func firstValues(environments [][]plan.Variable, name string) string {
	var list []string
	for _, environment := range environments[:min(len(environments), maxValues)] {
		text := "-"
		for _, v := range environment {
			if v.Name == name {
				text = v.Shown()
			}
		}
		list = append(list, text)
	}
	if len(environments) > maxValues {
		list = append(list, "…")
	}
	return strings.Join(list, " ")
}
