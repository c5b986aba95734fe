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

func (t planTable) ranks(p *job.Plan) {
	t.row("RANK", "HOST", "LOCAL", "GPU", "CPUS", "PROGRAM")
	for _, r := range p.Ranks {
		n := p.Nodes[r.Node]
		argv := r.Argv
		if argv == nil {
			argv = p.Apps[r.App].Argv
		}
		t.row(fmt.Sprint(r.Rank), n.Name, fmt.Sprint(r.LocalRank), orDash(r.GPU), orDash(cmp.Or(r.CPUs.String(), n.CPUs)), quoted(argv))
	}
	t.row("")
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
	if len(p.Ranks) > 0 {
		for i, v := range p.Ranks[0].Env {
			t.row(v.Name, t.values(p, i), string(v.Origin), v.Reason)
		}
	}
	for _, r := range p.Removed {
		t.row(r.Name, "(removed)", "", r.Reason)
	}
	if inherited > 0 {
		t.row("", fmt.Sprintf("and %d inherited ones, unchanged (--json lists them)", inherited))
	}
}

// values are what the first ranks get for their i-th own variable.
func (t planTable) values(p *job.Plan, i int) string {
	const most = 4
	var list []string
	for _, r := range p.Ranks[:min(len(p.Ranks), most)] {
		list = append(list, r.Env[i].Shown())
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
