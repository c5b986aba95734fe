package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/job"
)

// writePlan prints what would be started: as a table for people, or as JSON
// with everything in it. The same wish on the same host prints the same bytes.
func writePlan(w io.Writer, p *job.Plan, asJSON bool) error {
	if asJSON {
		p = withoutSecrets(*p)
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(p)
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
	p.Common, p.Ranks = mask(p.Common), slices.Clone(p.Ranks)
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
		t.row("program", quoted(app.Argv), "("+app.Kind+")")
		if app.Dir != "" {
			t.row("directory", app.Dir)
		}
	}
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

// manyRanks is the number from which on ranks that differ in nothing are one line.
const manyRanks = 16

// ranks has a line for each rank: what it runs, where, and why there.
func (t planTable) ranks(p *job.Plan) {
	columns := []string{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "MEMORY", "PLACE", "PROGRAM"}
	var rows [][]string
	for i, r := range p.Ranks {
		n := p.Nodes[r.Node]
		argv := r.Argv
		if argv == nil {
			argv = p.Apps[r.App].Argv
		}
		row := []string{
			fmt.Sprint(r.Rank), n.Name, fmt.Sprint(r.LocalRank), orDash(r.GPU), orDash(cmp.Or(r.CPUs.String(), n.CPUs)),
			memory(r), orDash(r.Reason), quoted(argv),
		}
		if last := len(rows) - 1; i > 0 && len(p.Ranks) > manyRanks && follows(p.Ranks[i-1], r) && alike(rows[last], row) {
			rows[last][0], rows[last][2] = through(rows[last][0], row[0]), through(rows[last][2], row[2])
			continue
		}
		rows = append(rows, row)
	}
	for _, column := range []int{6, 5} { // nothing to say of any rank
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "-" }) {
			columns = slices.Delete(columns, column, column+1)
			for i := range rows {
				rows[i] = slices.Delete(rows[i], column, column+1)
			}
		}
	}
	t.row(columns...)
	for _, row := range rows {
		t.row(row...)
	}
	t.row("")
}

// memory says from which NUMA nodes a rank's memory is.
func memory(r job.Rank) string {
	if r.MemoryPolicy == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s", r.MemoryPolicy, r.Memories)
}

// follows reports whether a rank is the next one of the same node.
func follows(before, r job.Rank) bool {
	return before.Node == r.Node && before.LocalRank+1 == r.LocalRank
}

// alike reports whether two rows say the same of their ranks.
func alike(a, b []string) bool { return a[1] == b[1] && slices.Equal(a[3:], b[3:]) }

// through is a range of numbers with another one at its end.
func through(numbers, last string) string {
	first, _, _ := strings.Cut(numbers, "-")
	return first + "-" + last
}

func (t planTable) environment(p *job.Plan) {
	t.row("VARIABLE", "VALUE", "FROM", "WHY")
	inherited := 0
	for _, v := range p.Common {
		if v.Origin == plan.Inherited {
			inherited++
			continue
		}
		t.row(v.Name, orDash(v.Shown()), string(v.Origin), v.Reason)
	}
	for _, v := range ownVariables(p) {
		t.row(v.Name, values(p, v.Name), string(v.Origin), v.Reason)
	}
	for _, r := range p.Removed {
		t.row(r.Name, "(removed)", "", r.Reason)
	}
	if inherited > 0 {
		t.row("", fmt.Sprintf("and %d inherited ones, unchanged (--json lists them)", inherited))
	}
}

// ownVariables are those that ranks have for themselves, each once. A rank need not
// have those of another.
func ownVariables(p *job.Plan) (own []plan.Variable) {
	for _, r := range p.Ranks {
		for _, v := range r.Env {
			if !slices.ContainsFunc(own, func(o plan.Variable) bool { return o.Name == v.Name }) {
				own = append(own, v)
			}
		}
	}
	return own
}

// values are what the first ranks have for a variable of their own.
func values(p *job.Plan, name string) string {
	const most = 4
	var list []string
	for _, r := range p.Ranks[:min(len(p.Ranks), most)] {
		shown := "-"
		for _, v := range r.Env {
			if v.Name == name {
				shown = v.Shown()
			}
		}
		list = append(list, shown)
	}
	if len(p.Ranks) > most {
		list = append(list, "…")
	}
	return strings.Join(list, " ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// quoted writes an argument vector so that a shell reads it back.
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
