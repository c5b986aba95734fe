package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// writePlan prints what would be started: as a table for people, or as JSON
// with everything in it. The same wish on the same host prints the same bytes.
func writePlan(w io.Writer, p *job.Plan, asJSON bool) error {
	if asJSON {
		return writeJSON(w, withoutSecrets(*p))
	}
	t := planTable{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.job(p)
	t.ranks(p)
	t.environment(p)
	return t.Flush()
}

// withoutSecrets is the plan with what looks like a secret masked.
func withoutSecrets(p job.Plan) *job.Plan {
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

// planTable writes a plan's sections in aligned columns.
type planTable struct{ *tabwriter.Writer }

func (t planTable) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable.Text(c)
	}
	fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t planTable) job(p *job.Plan) {
	t.row("ranks", p.Why)
	t.row("store", fmt.Sprintf("%s:%s", p.Store.Addr, p.Store.Port), "("+p.Store.Why+")")
	for _, app := range p.Apps {
		t.row("program", shellwords.Join(app.Argv), "("+app.Kind+")")
		if app.Dir != "" {
			t.row("directory", app.Dir)
		}
	}
	t.nodes(p)
	t.row("mpi", worlds(p), "("+cmp.Or(p.MPIWhy, "--mpi="+p.MPI.String())+")")
	t.row("stdin", p.Stdin)
	if p.Logs != nil {
		t.row("logs", p.Logs.Dir)
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
	t.row("ending", ending)
	t.row("")
}

// worlds says who begins MPI together, and by what.
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

// nodes says where programs are started otherwise than on the first node, and which
// hosts are left out.
func (t planTable) nodes(p *job.Plan) {
	shown := make(map[string]int) // number of the row's hosts
	var rows [][2]string
	hosts := make(map[string][]string)
	for _, n := range p.Nodes {
		for _, app := range n.Apps {
			key := shellwords.Join(app.Argv)
			if _, known := shown[key]; !known {
				shown[key], rows = len(rows), append(rows, [2]string{key, app.Kind})
			}
			hosts[key] = append(hosts[key], n.Name)
		}
	}
	for _, r := range rows {
		t.row("program", r[0], fmt.Sprintf("(%s, on %s)", r[1], job.HostRanges(hosts[r[0]])))
	}
	if len(p.Unused) > 0 {
		t.row("left out", job.HostRanges(p.Unused), "(no rank is there)")
	}
}

// ranks has a line for each rank: what it runs, where, and why there. Many ranks that
// differ in nothing are one line, and so are those of many hosts.
func (t planTable) ranks(p *job.Plan) {
	rows := [][]string{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "MEMORY", "PLACE", "PROGRAM"}}
	if len(p.Ranks) > manyRanks {
		for _, row := range foldedRows(p) {
			rows = append(rows, row.columns())
		}
	} else {
		for i := range p.Ranks {
			rows = append(rows, rowOf(p, i).columns())
		}
	}
	for _, row := range withoutEmpty(rows, 5, 6) {
		t.row(row...)
	}
	t.row("")
}

func (t planTable) environment(p *job.Plan) {
	t.row("VARIABLE", "VALUE", "FROM", "WHY")
	inherited := 0
	for _, v := range p.Common {
		if v.Origin == plan.Inherited && isSetting(v.Name) {
			inherited++
			continue
		}
		t.row(v.Name, orDash(v.Shown()), string(v.Origin), v.Reason)
	}
	nodes, ranks := environs(p)
	for _, v := range ownVariables(nodes, plan.Inherited) {
		t.row(v.Name, values(nodes, v.Name)+" (by host)", string(v.Origin), v.Reason)
	}
	for _, v := range ownVariables(ranks, "") {
		t.row(v.Name, values(ranks, v.Name), string(v.Origin), v.Reason)
	}
	for _, r := range p.Removed {
		t.row(r.Name, "(removed)", "", r.Reason)
	}
	if inherited > 0 {
		t.row("", fmt.Sprintf("and %d inherited ones, unchanged (--json lists them)", inherited))
	}
	if n := len(p.Withheld); n > 0 {
		t.row("",
			fmt.Sprintf("other hosts do not get %d inherited ones (--json lists them as withheld, -x NAME sends one)", n))
	}
}

// environs are what each node and each rank has for itself.
func environs(p *job.Plan) (nodes, ranks [][]plan.Variable) {
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Env)
	}
	for _, r := range p.Ranks {
		ranks = append(ranks, r.Env)
	}
	return nodes, ranks
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

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
		hosts = job.HostRanges(r.hosts)
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
