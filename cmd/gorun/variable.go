package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"

	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/job"
)

// envWidth is how wide texts of gorun env are.
const envWidth = 80

// explainVariables says what variables mean, and returns the exit code.
func (o *envOptions) explainVariables() error {
	var text strings.Builder
	all := []variableJSON{} // [] as JSON
	var unknown *multierror.Error
	for i, name := range o.explain {
		found := nccl.Matching(name)
		if row, ok := ownRow(name); ok && len(found) == 0 {
			all = append(all, ownJSON(row))
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			text.WriteString(explainedOwn(row))
			continue
		}
		if len(found) == 0 {
			unknown = multierror.Append(unknown, failure{job.ExitUsage, unknownVariable(name)})
			continue
		}
		all = append(all, variablesJSON(found)...)
		if i > 0 && text.Len() > 0 {
			text.WriteString("\n")
		}
		if len(found) > 1 {
			text.WriteString(listing(found))
		} else {
			text.WriteString(explained(name, found[0]))
		}
	}
	if err := o.show(all, text.String); err != nil {
		return err
	}
	return unknown.ErrorOrNil()
}

// ownRow is what gorun itself does about a variable that the database does not have.
func ownRow(name string) (plan.Row, bool) {
	rows := plan.Table()
	i := slices.IndexFunc(rows, func(r plan.Row) bool { return strings.EqualFold(r.Name, name) })
	if i < 0 {
		return plan.Row{}, false
	}
	return rows[i], true
}

// isExplained reports whether gorun env --explain has something to say of a variable.
func isExplained(name string) bool {
	_, own := ownRow(name)
	return own || len(nccl.Matching(name)) > 0
}

// explainedOwn is what gorun gives ranks by a variable, and whose value counts.
func explainedOwn(row plan.Row) string {
	const column = 12
	value := "not given to ranks"
	if row.Value != "" {
		value = strings.ReplaceAll(row.Value, "`", "")
	}
	counts := map[plan.Class]string{
		plan.ClassIdentity: "gives each rank its own: an inherited one is removed, -x is refused",
		plan.ClassSetting:  "sets it where nobody else does; your value wins",
		plan.ClassWish:     "heeds yours, from the environment or by -x, unless another launcher set it",
		plan.ClassLauncher: "reads it itself, and keeps it from ranks",
	}[row.Class]
	if row.Class == plan.ClassSetting && row.Value == "as inherited" {
		counts = "never sets it; yours reaches the ranks"
	}
	return printable.Text(row.Name) + "\n" + columns("  meaning", row.Reason, column) +
		columns("  value", value, column) + columns("  library", row.Source, column) + columns("  gorun", counts, column)
}

// unknownVariable says that nobody knows a name, and which were probably meant.
func unknownVariable(name string) string {
	text := "nothing is known of a variable " + name
	if near := nccl.Nearest(name, nccl.Names()); near != nil {
		return text + ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return text + "; gorun env --explain 'NCCL_*' lists NCCL's"
}

// listing has a line for each of several variables.
func listing(found []nccl.Variable) string {
	widest := 0
	for _, v := range found {
		widest = max(widest, len(v.Name))
	}
	widest = min(widest, envWidth/2)
	var b strings.Builder
	for _, v := range found {
		meaning := v.Meaning
		switch v.Status {
		case nccl.Never:
			meaning = "(never existed) " + v.Advice
		case nccl.Removed:
			meaning = "(gone) " + meaning
		}
		b.WriteString(columns(v.Name, meaning, widest+2))
	}
	return b.String()
}

// columns writes a name and a text beside it, which is wrapped.
func columns(name, text string, column int) string {
	var b strings.Builder
	lines := wrapped(printable.Text(text), envWidth-column)
	if utf8.RuneCountInString(name) > column-2 {
		fmt.Fprintf(&b, "%s\n", name)
		name = ""
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "%s%s%s\n", name, strings.Repeat(" ", column-utf8.RuneCountInString(name)), line)
		name = ""
	}
	return b.String()
}

// explained is a record of the database, for people. name is what they asked for, which
// a pattern may stand for.
func explained(name string, v nccl.Variable) string {
	const column = 12
	var b strings.Builder
	title := strings.ToUpper(name)
	if _, found := nccl.Lookup(name); found {
		title = name
	}
	if v.IsPattern() && title != v.Name {
		title += " (as all " + v.Name + ")"
	}
	fmt.Fprintf(&b, "%s\n", printable.Text(title))
	row := func(label, text string) {
		if text != "" {
			b.WriteString(columns("  "+label, text, column))
		}
	}
	row("meaning", v.Meaning)
	row("library", libraryOf(v))
	row("status", statusOf(v))
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
		row("gorun", gorunDoes(v))
	}
	row("instead", strings.Join(v.Instead, ", "))
	row("advice", v.Advice)
	for _, c := range v.Cautions {
		text := c.Text
		if c.Debugging {
			text = "for debugging alone: " + text
		}
		if values := strings.Join(c.Values, ", "); values != "*" {
			text = values + ": " + text
		}
		row("beware", text)
	}
	if !v.IsPattern() {
		row("here", valueHere(v.Name))
	}
	return b.String()
}

func libraryOf(v nccl.Variable) string {
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

func statusOf(v nccl.Variable) string {
	return map[nccl.Status]string{
		nccl.Undocumented: "undocumented: it may go with any version",
		nccl.Deprecated:   "deprecated",
		nccl.Removed:      "gone: nobody reads it any more",
		nccl.Never:        "never existed: no version reads it",
	}[v.Status]
}

// gorunDoes says what gorun does with a variable.
func gorunDoes(v nccl.Variable) string {
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

// valueHere says what a variable is in this environment or in a library's own file.
func valueHere(name string) string {
	if value, set := os.LookupEnv(name); set {
		return name + "=" + value + ", from the environment"
	}
	for s := range confHere {
		if s.Name == name {
			return fmt.Sprintf("%s=%s, from %s line %d", name, s.Value, s.File, s.Line)
		}
	}
	return ""
}

// confHere yields what the files of NCCL and RCCL on this host set.
func confHere(yield func(nccl.Assignment) bool) {
	for _, file := range confFilesHere(nccl.NCCL, nccl.RCCL) {
		text, err := readConf(file)
		if err != nil {
			continue // most hosts have none
		}
		for _, s := range nccl.Parse(nccl.FromConf, file, text) {
			if !yield(s) {
				return
			}
		}
	}
}

// confFilesHere are the files that these kinds of libraries read in this process's
// place.
func confFilesHere(kinds ...nccl.Library) (files []string) {
	for _, kind := range kinds {
		for _, file := range nccl.ConfFiles(kind, os.Getenv, os.Getenv("HOME")) {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// readConf reads a file of a library's settings. Nobody named it on the command line, so
// that a pipe there, which may never end, is none.
func readConf(file string) ([]byte, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	return readSome(file)
}

// largestText is how much of a file is looked at.
const largestText = 4 << 20

// readSome reads a text that is not too large to be one.
func readSome(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readText(f)
}

func readText(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, largestText+1))
	if err == nil && len(text) > largestText {
		err = errors.New("more than 4 MiB: that is no script")
	}
	return text, err
}

// variableJSON is a record for programs.
type variableJSON struct {
	nccl.Variable
	MustAgree  bool `json:"must_agree"`
	Documented bool `json:"documented"`
}

// ownJSON is a variable of the ranks' contract.
func ownJSON(row plan.Row) variableJSON {
	does := nccl.Sets
	if row.Value == "" {
		does = nccl.Leaves
	}
	return variableJSON{Variable: nccl.Variable{
		Name: row.Name, Library: nccl.Library(row.Source), Status: nccl.Live, Meaning: row.Reason,
		Values: strings.ReplaceAll(row.Value, "`", ""), Gorun: does,
	}, Documented: true}
}

func variablesJSON(all []nccl.Variable) []variableJSON {
	list := make([]variableJSON, len(all))
	for i, v := range all {
		list[i] = variableJSON{v, v.MustAgree(), v.Status == nccl.Live || v.Status == nccl.Deprecated}
	}
	return list
}
