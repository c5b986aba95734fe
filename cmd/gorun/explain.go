package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/doctor/signature"
	"gorun/launcher/job"
)

type explainOptions struct {
	*commandLine
	words []string // a text, a file, an id, or "-"; with list a family's name, or none
	list  bool     // list known errors
}

func explainCommand(c *commandLine) *command {
	o := &explainOptions{commandLine: c}
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.MoveOptionsFirst(args, isExplainOption) },
		Command: cli.Command{
			Usage: "explain an error, a log file, an exit code, a variable or a check",
			Description: "gorun explain says what an error of NCCL, PyTorch, MPI, CUDA, SSH, Slurm or the system means, why " +
				"it comes, how to check that and what to do. " +
				"It reads one text, a whole log, or an exit code, and starts no rank.",
			UsageText: "gorun explain [options] TEXT|FILE|DIR|ID|-",
			Flags: c.Flags(c.group(dialect.GroupShown, option{
				Names: "list", Set: dialect.Switch(&o.list),
				Help: "list all known errors, or those of a FAMILY: nccl, slurm, openmpi",
			}, c.jsonOption("print the explanation as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun explain 'ibv_create_qp failed'", "one error"},
				{"gorun explain job.log", "all in a log, causes first"},
				{"gorun explain -", "the same from standard input"},
				{"gorun explain gorun-evidence-7f3a", "a directory of gorun evidence"},
				{"gorun explain nccl-shm-full", "one that a hint names"},
				{"gorun explain 137", "an exit code"},
				{"gorun explain --list nccl", "those of NCCL that are known"},
			},
			Codes: []dialect.Example{
				{"0", "something was found"},
				{"1", "nothing of it is known"},
				{"2", "a mistake on the command line, or a file that cannot be read"},
				{"125", "gorun's own error"},
			},
			Last: "A word that is an id, or else a file, is taken for it; ./WORD is a file. Options may stand behind the " +
				"words; behind -- nothing is one. More: docs/nccl.md.",
		},
	}
}

// isExplainOption recognises options after words: only long ones of gorun explain, since the words are a text that may
// contain others. A number like -9 is an exit code.
func isExplainOption(word string, o *option, words []string) bool {
	digits, negative := strings.CutPrefix(word, "-")
	if negative && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return false
	}
	return words == nil || o != nil && strings.HasPrefix(word, "--")
}

func (o *explainOptions) check(words []string) {
	o.words = words
	switch {
	case o.list && len(words) > 1:
		o.refuse("%s: --list takes one family, such as nccl", dialect.Typed(words[1:]))
	case words != nil && strings.TrimSpace(strings.Join(words, "")) == "":
		o.refuse("the text to explain is empty: an unset variable? gorun explain --list lists what is known")
	case !o.list && len(words) == 0 && o.Err() == nil:
		o.refuse("nothing to explain: add a text in quotes, a file, or - for standard input; --list lists what is known")
	}
}

// exitUnknown is the exit code for a text of which nothing is known.
const exitUnknown = 1

func (o *explainOptions) run() error {
	switch names := withoutValues(o.words); {
	case o.list:
		return o.listErrors()
	case areAll(names, isVariable):
		return o.explainVariables(names)
	case areAll(o.words, isCheck):
		return o.explainChecks(o.words)
	}
	if slices.Equal(o.words, []string{"-"}) && term.IsTerminal(int(os.Stdin.Fd())) {
		o.notify("reading standard input: Ctrl-D ends it")
	}
	if len(o.words) == 1 {
		if d := openEvidence(o.words[0]); d != nil {
			return o.explainDir(d)
		}
	}
	e, err := lookUp(o.words, os.Stdin)
	if err != nil {
		return err
	}
	err = o.printResult("errors", newErrorList(e.found), func() string { return e.text(explainWidth(o.stdout)) })
	if err != nil {
		return err
	}
	if text := misspelled(o.words); text != "" && e.found == nil {
		return exitError{exitUnknown, text}
	}
	for _, note := range e.notes() {
		o.notify(note)
	}
	if len(e.found) == 0 {
		return exitWith(exitUnknown)
	}
	return nil
}

// explanation is what is known of the words of a command line.
type explanation struct {
	words  string           // as typed
	source string           // a file's name or "standard input"; "" if the words are a text or an id
	read   signature.Extent // of the source
	shadow bool             // the words are an id, but also the name of a file
	found  []signature.Finding
}

// lookUp explains words: an id, a file, standard input ("-") or a text.
func lookUp(words []string, stdin io.Reader) (explanation, error) {
	e := explanation{words: strings.Join(words, " ")}
	if err := refuseFiles(words); err != nil {
		return e, err
	}
	var statErr error
	if len(words) == 1 {
		_, statErr = os.Stat(words[0])
		m, known := signature.ByID(words[0])
		switch {
		case words[0] == "-":
			e.source = "standard input"
			return e, e.scan(stdin)
		case known:
			e.found, e.shadow = []signature.Finding{{Match: m}}, statErr == nil
			return e, nil
		case statErr == nil:
			return e, e.scanFile(words[0])
		case isPath(words[0]):
			return e, missingFile(words[0], statErr)
		}
	}
	if err := e.lookUpText(); err != nil || e.found != nil || statErr == nil {
		return e, err
	}
	return e, missingFile(words[0], statErr)
}

// lookUpText explains the words themselves: as a query, as lines of a log, or as a text with an exit code.
func (e *explanation) lookUpText() error {
	if m, known := signature.Lookup(e.words); known {
		e.found = []signature.Finding{{Match: m}}
		return nil
	}
	if err := e.scan(strings.NewReader(e.words)); err != nil || e.found != nil {
		return err
	}
	if code, _ := signature.ExitCode(e.words); code != "" {
		if m, known := signature.ByCode(code); known {
			e.found = []signature.Finding{{Match: m}}
		}
	}
	return nil
}

func (e *explanation) scanFile(name string) error {
	file, err := openLog(name)
	if err != nil {
		return err
	}
	defer file.Close()
	e.source = name
	return e.scan(file)
}

func (e *explanation) scan(r io.Reader) (err error) {
	if e.source != "" {
		if r, err = textReader(r, e.source); err != nil {
			return err
		}
	}
	e.found, e.read, err = signature.Scan(r)
	return err
}

// notes are for standard error.
func (e *explanation) notes() []string {
	notes := e.findingNotes()
	if n := e.read.Long; n > 0 {
		are := "are"
		if n == 1 {
			are = "is"
		}
		notes = append(notes, fmt.Sprintf("%s %s longer than %d bytes; the rest was not read",
			show.Count(n, "line"), are, signature.MaxLine))
	}
	return notes
}

func (e *explanation) findingNotes() []string {
	switch {
	case e.shadow:
		return []string{fmt.Sprintf("gorun explain ./%s reads the file of that name", e.words)}
	case e.read.Report != "" && (len(e.found) == 0 || e.found[0].Kind != signature.Cause):
		return []string{fmt.Sprintf("no known error is the cause; line %d says: %s", e.read.ReportLine, e.read.Report)}
	case len(e.found) > 0 && e.source != "" && e.found[0].Kind != signature.Cause:
		return []string{"no line names a cause: look for the first error of any rank"}
	case len(e.found) > 0:
		return nil
	case e.source != "":
		return []string{fmt.Sprintf("%s: no known error in %s", e.source, show.Count(e.read.Lines, "line"))}
	}
	notes := []string{fmt.Sprintf("no match for %q", e.words)}
	if near := similarIDs(e.words); near != nil && !strings.ContainsAny(e.words, " \n") {
		notes = append(notes, "did you mean "+strings.Join(near, ", ")+"?")
	}
	return notes
}

// similarIDs returns a few ids of records with all words of a text, or words that begin so: first those whose name or
// meaning has them, then those whose lines do.
func similarIDs(text string) []string {
	const maxIDs = 6
	words := splitWords(text)
	if len(words) == 0 {
		return nil
	}
	var byName, byLine []string
	for _, s := range signature.All() {
		switch {
		case containsAll(s.ID+" "+s.Means, words):
			byName = append(byName, s.ID)
		case slices.ContainsFunc(slices.Concat(s.Lines, s.Vague, s.Examples), func(line string) bool {
			return containsAll(line, words)
		}):
			byLine = append(byLine, s.ID)
		}
	}
	ids := append(byName, byLine...)
	return ids[:min(len(ids), maxIDs)]
}

// splitWords returns the words of a text in lower case, without those of one letter.
func splitWords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	return slices.DeleteFunc(words, func(word string) bool { return len(word) < 2 })
}

// containsAll reports whether each word is one of a text's, or the beginning of one.
func containsAll(text string, words []string) bool {
	has := splitWords(text)
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(has, func(h string) bool { return strings.HasPrefix(h, word) })
	})
}

// listErrors lists all known errors, or those of a family.
func (o *explainOptions) listErrors() error {
	families := signature.Families()
	if words := o.words; len(words) > 0 {
		if len(signature.InFamily(words[0])) == 0 {
			return usageError("--list %s: no such family; there are %s", words[0], strings.Join(families, ", "))
		}
		families = words
	}
	var b strings.Builder
	var list []signature.Finding
	for _, family := range families {
		members := signature.InFamily(family)
		fmt.Fprintf(&b, "%s:\n", members[0].Family)
		var rows [][]string
		for i := range members {
			m := &members[i]
			rows = append(rows, []string{
				fmt.Sprintf("  %-27s", m.ID), show.Join(": ", strings.Join(m.Codes, ", "), m.Means),
			})
			list = append(list, signature.Finding{Match: signature.Match{Signature: m}})
		}
		b.WriteString(show.Table(rows, show.Width(o.stdout)))
	}
	return o.printResult("errors", newErrorList(list), b.String)
}

// errorList has the known errors that were found or asked for, causes first.
type errorList struct {
	Errors []signature.Finding `json:"errors"` // causes first
}

// newErrorList fills in what the lines of a log held.
func newErrorList(found []signature.Finding) errorList {
	list := append([]signature.Finding{}, found...) // [] as JSON
	for i, f := range list {
		s := *f.Signature
		for _, text := range []*string{&s.Cause, &s.Check, &s.Fix, &s.Hint} {
			*text = f.Match.Text(*text)
		}
		list[i].Signature = &s
	}
	return errorList{list}
}

// explainWidth is the width of explanations in columns.
func explainWidth(stdout io.Writer) int {
	const least, most = 60, 80
	width := show.Style(stdout).Width
	if width == 0 {
		return most
	}
	return max(least, min(width, most))
}

// text formats what was found, the causes first.
func (e *explanation) text(width int) string {
	var texts []string
	for _, f := range e.found {
		brief := (f.Kind == signature.Symptom || f.Kind == signature.Victim) && e.found[0].Kind == signature.Cause
		texts = append(texts, formatFinding(f, width, brief))
	}
	return strings.Join(texts, "\n")
}

// formatFinding formats one; brief leaves out how to mend what follows from other findings.
func formatFinding(f signature.Finding, width int, brief bool) string {
	var b strings.Builder
	head := strings.Fields(fmt.Sprintf("%s: %s (%s%s)", f.ID, f.Means, f.Family, describeKind(f)))
	b.WriteString(strings.Join(printable.WrapWords(head, " ", width), "\n  ") + "\n")
	row := func(label, text string) {
		b.WriteString(show.Item("  "+label, wrapCommands(text, width-labelColumn), labelColumn))
	}
	if f.Text != "" {
		row("line", f.Text)
		seen := fmt.Sprintf("in line %d", f.Line)
		if f.Count > 1 {
			seen = fmt.Sprintf("%d times, first %s", f.Count, seen)
		}
		switch len(f.Ranks) {
		case 0:
		case 1:
			seen += fmt.Sprintf(", of rank %d", f.Ranks[0])
		default:
			seen += ", of ranks " + job.RankRanges(f.Ranks)
		}
		if f.Line > 1 || f.Count > 1 || len(f.Ranks) > 0 {
			row("seen", seen)
		}
	}
	if brief {
		return b.String()
	}
	row("cause", f.Marked(f.Cause))
	row("check", f.Marked(f.Check))
	row("fix", f.Marked(f.Fix))
	if len(f.Variables) > 0 {
		text := strings.Join(f.Variables, " ")
		if i := slices.IndexFunc(f.Variables, isExplained); i >= 0 {
			text += "; `gorun explain " + f.Variables[i] + "` says what that does"
		}
		row("variables", text)
	}
	return b.String()
}

func describeKind(f signature.Finding) string {
	switch f.Kind {
	case signature.Symptom:
		return "; does not name the cause"
	case signature.Victim:
		return "; consequence of another failure"
	case signature.Note:
		return "; no failure by itself"
	}
	return ""
}

// wrapCommands wraps text, but no command in it, and removes the marks around commands.
func wrapCommands(text string, width int) []string {
	inside := false
	words := strings.FieldsFunc(text, func(r rune) bool {
		if r == '`' {
			inside = !inside
		}
		return r == ' ' && !inside
	})
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "`", "")
	}
	return printable.WrapWords(words, " ", width)
}
