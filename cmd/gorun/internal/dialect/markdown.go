package dialect

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// optionsHead is the prose of docs/reference/options.md, before the tables.
//
//go:embed options.md
var optionsHead string

// Markdown returns docs/reference/options.md: every option in every spelling, with its variables and the dialects that
// have it, those of commands last.
func Markdown(commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString(optionsHead)
	known := anchors{}
	for g := range numGroups {
		optionTable(&b, g, commands, known)
	}
	b.WriteString("\n## Exit codes\n\n| code | when |\n| --- | --- |\n")
	for _, e := range exitCodes {
		id := "exit-" + strings.ReplaceAll(e[0], ", ", "-")
		fmt.Fprintf(&b, "| %s%s | %s |\n", known.of(id), e[0], cell(e[1]))
	}
	return b.String()
}

// anchors are the anchors of a page that have been written.
type anchors map[string]bool

// of returns the HTML of those names that are not yet anchors: options of several commands may have one name.
func (a anchors) of(names ...string) string {
	html := ""
	for _, name := range names {
		if !a[name] {
			a[name] = true
			html += `<a id="` + name + `"></a>`
		}
	}
	return html
}

// optionTable writes the options of one group, each once.
func optionTable(b *strings.Builder, g Group, commands []*cli.Command, known anchors) {
	fmt.Fprintf(b, "\n## %s\n\n| option | in | variables | meaning |\n| --- | --- | --- | --- |\n", g)
	seen := map[string]bool{}
	row := func(o *Option, in string) {
		text := fmt.Sprintf("%s | %s | %s | %s |\n", spellings(o), in, code(o.Variables()), cell(o.Help))
		if !seen[text] {
			b.WriteString("| " + known.of(allSpellings(o)...) + text)
			seen[text] = true
		}
	}
	all := &Line{tables: slices.Concat(Gorun.tables, []table{perNodeTable, mpirunTable, mpiexecTable, launchTable})}
	for o := range all.options {
		if o.Group == g {
			row(o, knownBy(o))
		}
	}
	for _, c := range commands {
		for _, f := range c.Flags {
			f := f.(*Flag)
			if f.Group != g {
				continue
			}
			of := Gorun.exact(Spelling(f.Name()))
			if shared := f.Hidden || of != nil && of.Help == f.Help; !shared && letters[c.Name] != "" {
				row(f.Option, letters[c.Name])
			}
		}
	}
}

// letters stand for gorun's commands in the column.
var letters = map[string]string{
	"store": "s", "topo": "m", "doctor": "d", "env": "v", "lint": "v", "bench": "b", "explain": "e", "sbatch": "q",
	"ps": "j", "top": "j", "stop": "j", "stacks": "j", "logs": "j", "evidence": "j", "report": "j", "install-names": "i",
}

func allSpellings(o *Option) []string {
	names := o.AllNames()
	for i, n := range names {
		names[i] = Spelling(n)
	}
	return names
}

// spellings returns all names of an option, and the value behind the last one.
func spellings(o *Option) string {
	names := allSpellings(o)
	if o.TakesValue() {
		names[len(names)-1] += " " + o.Value
	}
	return code(names)
}

// knownBy returns the letters of the dialects that have an option.
func knownBy(o *Option) string {
	in := func(d *Dialect) bool {
		row := d.exact(Spelling(o.Name()))
		return row != nil && row.Help == o.Help
	}
	switch {
	case in(Torchrun):
		return "g t"
	case in(Gorun):
		return "g"
	case in(Mpirun) && in(Mpiexec):
		return "r x"
	case in(Mpirun):
		return "r"
	case in(Mpiexec):
		return "x"
	}
	return "l"
}

// code formats words as code.
func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + cell(strings.Join(words, "` `")) + "`"
}

// cell escapes text in a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }
