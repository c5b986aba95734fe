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
		t.row("program", r[0], fmt.Sprintf("(%s, on %s)", r[1], job.FoldHosts(hosts[r[0]])))
	}
	if len(p.Unused) > 0 {
		t.row("left out", job.FoldHosts(p.Unused), "(no rank is there)")
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
