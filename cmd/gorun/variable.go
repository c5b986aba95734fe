package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"gorun/cmd/gorun/internal/show"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/job"
)

const (
	envWidth    = 80 // of the texts of gorun env, in columns
	labelColumn = 12 // where texts begin beside their labels
)

// explainVariables explains variables by their names or patterns.
func (c *commandLine) explainVariables(names []string) error {
	var texts []string
	all := []variableJSON{} // [] as JSON
	var unknown *multierror.Error
	width := explainWidth(c.stdout)
	for _, name := range names {
		found := nccl.Matching(name)
		row, own := ownVariable(name)
		switch {
		case len(found) > 1:
			texts = append(texts, listVariables(found))
		case len(found) == 1:
			texts = append(texts, explainVariable(name, found[0], width))
		case own:
			all = append(all, ownJSON(row))
			texts = append(texts, explainOwn(row, width))
		default:
			unknown = multierror.Append(unknown, exitError{job.ExitUsage, unknownVariable(name)})
		}
		for _, v := range found {
			all = append(all, variableJSON{v, v.MustAgree(), v.Status == nccl.Live || v.Status == nccl.Deprecated})
		}
	}
	err := c.printResult("variables", variableList{all}, func() string { return strings.Join(texts, "\n") })
	if err != nil {
		return err
	}
	return unknown.ErrorOrNil()
}

// ownVariable finds one that gorun itself gives ranks, or reads.
func ownVariable(name string) (plan.Row, bool) {
	rows := plan.Table()
	i := slices.IndexFunc(rows, func(r plan.Row) bool { return strings.EqualFold(r.Name, name) })
	if i < 0 {
		return plan.Row{}, false
	}
	return rows[i], true
}

// isExplained reports whether gorun explain knows a variable.
func isExplained(name string) bool {
	_, own := ownVariable(name)
	return own || len(nccl.Matching(name)) > 0
}

// labelled writes "  label     text" with text wrapped, or nothing without text.
func labelled(label, text string, width int) string {
	if text == "" {
		return ""
	}
	return show.Item("  "+label, printable.Wrap(text, width-labelColumn), labelColumn)
}

func explainOwn(row plan.Row, width int) string {
	value := cmp.Or(strings.ReplaceAll(row.Value, "`", ""), "not given to ranks")
	handling := map[plan.Class]string{
		plan.ClassIdentity: "gives each rank its own: an inherited one is removed, -x is refused",
		plan.ClassSetting:  "sets it where nobody else does; your value wins",
		plan.ClassRequest:  "heeds yours, from the environment or by -x, unless another launcher set it",
		plan.ClassLauncher: "reads it itself, and keeps it from ranks",
	}[row.Class]
	if row.Class == plan.ClassSetting && row.Value == "as inherited" {
		handling = "never sets it; yours reaches the ranks"
	}
	return printable.Text(row.Name) + "\n" + labelled("meaning", row.Reason, width) + labelled("value", value, width) +
		labelled("library", row.Source, width) + labelled("gorun", handling, width)
}

func unknownVariable(name string) string {
	text := "unknown variable " + name
	if near := nccl.Nearest(name, nccl.Names()); near != nil {
		return text + ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return text + "; gorun explain 'NCCL_*' lists NCCL's"
}

// listVariables has a line for each variable.
func listVariables(found []nccl.Variable) string {
	widest := 0
	for _, v := range found {
		widest = max(widest, len(v.Name))
	}
	column := min(widest, envWidth/2) + 2
	var b strings.Builder
	for _, v := range found {
		meaning := v.Meaning
		switch v.Status {
		case nccl.Never:
			meaning = "(never existed) " + v.Advice
		case nccl.Removed:
			meaning = "(gone) " + meaning
		}
		b.WriteString(show.Item(v.Name, printable.Wrap(meaning, envWidth-column), column))
	}
	return b.String()
}

// explainVariable formats a record of the database. The user asked for name, which the record's pattern may match.
func explainVariable(name string, v nccl.Variable, width int) string {
	title := strings.ToUpper(name)
	if _, found := nccl.Lookup(name); found {
		title = name
	}
	if v.IsPattern() && title != v.Name {
		title += " (as all " + v.Name + ")"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", printable.Text(title))
	row := func(label, text string) { b.WriteString(labelled(label, text, width)) }
	row("meaning", v.Meaning)
	row("library", describeLibrary(v))
	row("status", map[nccl.Status]string{
		nccl.Undocumented: "undocumented: it may go with any version",
		nccl.Deprecated:   "deprecated",
		nccl.Removed:      "gone: nobody reads it any more",
		nccl.Never:        "never existed: no version reads it",
	}[v.Status])
	if v.Alive() && !v.IsPattern() {
		row("default", cmp.Or(v.Default, "unset"))
		row("values", v.Values)
		row("others", v.Others)
		row("helps", v.Helps)
		row("hurts", v.Hurts)
		row("scope", map[nccl.Scope]string{
			nccl.ScopeJob: "equal on all ranks of a job", nccl.ScopeHost: "may differ between hosts",
			nccl.ScopeLog: "what is printed, and nothing else: may differ between ranks",
		}[v.Scope])
		row("gorun", describeHandling(v))
	}
	row("instead", strings.Join(v.Instead, ", "))
	row("advice", v.Advice)
	for _, c := range v.Cautions {
		text := c.Text
		if c.Debugging {
			text = "only for debugging: " + text
		}
		if values := strings.Join(c.Values, ", "); values != "*" {
			text = values + ": " + text
		}
		row("beware", text)
	}
	if !v.IsPattern() {
		row("here", localValue(v.Name))
	}
	return b.String()
}

func describeLibrary(v nccl.Variable) string {
	text := string(v.Library)
	if v.Library == nccl.NCCL && v.Alive() {
		text += ", and RCCL as far as it is as new"
	}
	if !v.Since.IsZero() {
		text += ", since " + v.Since.String()
	}
	if !v.Until.IsZero() {
		text += ", until before " + v.Until.String()
	}
	return text
}

func describeHandling(v nccl.Variable) string {
	text := map[nccl.Handling]string{
		nccl.Sets: "sets it in every job", nccl.Detects: "sets it where it finds",
		nccl.Offers: "sets it where you ask for it", nccl.Leaves: "never sets it",
	}[v.Gorun]
	switch {
	case v.How != "" && v.Gorun == nccl.Sets:
		text += ": " + v.How
	case v.How != "":
		text += " " + strings.TrimPrefix(v.How, "where ")
	}
	if v.Gorun != nccl.Leaves {
		text += "; your value wins"
	}
	return text
}

// localValue describes the value in this environment or in a library's configuration file.
func localValue(name string) string {
	if value, set := os.LookupEnv(name); set {
		return name + "=" + value + ", from the environment"
	}
	for s := range localSettings {
		if s.Name == name {
			return fmt.Sprintf("%s=%s, from %s line %d", name, s.Value, s.File, s.Line)
		}
	}
	return ""
}

type variableList struct {
	Variables []variableJSON `json:"variables"` // the known variables that match, by name
}

type variableJSON struct {
	nccl.Variable
	MustAgree  bool `json:"must_agree"` // all ranks need the same value
	Documented bool `json:"documented"` // the library's own documentation has it
}

func ownJSON(row plan.Row) variableJSON {
	handling := nccl.Sets
	if row.Value == "" {
		handling = nccl.Leaves
	}
	return variableJSON{Variable: nccl.Variable{
		Name: row.Name, Library: nccl.Library(row.Source), Status: nccl.Live, Meaning: row.Reason,
		Values: strings.ReplaceAll(row.Value, "`", ""), Gorun: handling,
	}, Documented: true}
}
