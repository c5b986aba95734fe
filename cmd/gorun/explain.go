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
	"gorun/launcher/doctor/signature"
	"gorun/launcher/job"
)

// explainOptions are those of gorun explain.
type explainOptions struct {
	*call
	words []string // a text, a file, an id, or "-"; with list a family's name, or none
	list  bool     // of all errors that are known
}

func explainCommand(c *call) *command {
	o := &explainOptions{call: c}
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.MoveOptionsFirst(args, isExplainOption) },
		Command: cli.Command{
			Usage: "say what an error means: of a text, a log file, an exit code",
			Description: "gorun explain says what an error of NCCL, PyTorch, MPI, CUDA, SSH, Slurm or the system means, why " +
				"it comes, how to check that and what to do. " +
				"It reads one text, a whole log, or an exit code, and starts no rank.",
			UsageText: "gorun explain [options] TEXT|FILE|ID|-",
			Flags: c.Flags(own(dialect.GroupShown, option{
				Names: []string{"list"}, Set: dialect.Switch(&o.list),
				Help: "list the errors that are known, or those of one FAMILY, such as nccl, slurm, openmpi",
			}, c.jsonOption("print what is found as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun explain 'ibv_create_qp failed'", "one error"},
				{"gorun explain job.log", "all in a log, causes first"},
				{"gorun explain -", "the same from standard input"},
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

// isExplainOption: the words are somebody's text, in which only long options of gorun explain are none of it; and what
// begins like -9 is an exit code.
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
		o.problem("%s: --list takes one family, such as nccl", dialect.Typed(words[1:]))
	case words != nil && strings.TrimSpace(strings.Join(words, "")) == "":
		o.problem("the text to explain is empty: an unset variable? gorun explain --list lists what is known")
	case !o.list && len(words) == 0 && o.Err() == nil:
		o.problem("nothing to explain: add a text in quotes, a file, or - for standard input; --list lists what is known")
	}
}

func (o *explainOptions) run() error { return o.explain(os.Stdin) }

// exitUnknown is gorun explain's for a text of which nothing is known.
const exitUnknown = 1

// explain does what a command line of gorun explain asks for.
func (o *explainOptions) explain(stdin io.Reader) error {
	if o.list {
		return o.listErrors()
	}
	if f, ok := stdin.(*os.File); ok && slices.Equal(o.words, []string{"-"}) && term.IsTerminal(int(f.Fd())) {
		o.say("reading standard input: Ctrl-D ends it")
	}
	asked, err := lookUp(o.words, stdin)
	if err != nil {
		return err
	}
	err = o.show(explanations(asked.found), func() string { return asked.text(explainWidth(o.stdout)) })
	if err != nil {
		return err
	}
	for _, note := range asked.notes() {
		o.say(note)
	}
	if len(asked.found) == 0 {
		return exitWith(exitUnknown)
	}
	return nil
}

// asked is what was found about what somebody asked.
type asked struct {
	words  string           // as they were typed
	source string           // the file's name, or "standard input"; "" is a text or an id
	read   signature.Extent // of the source
	shadow bool             // the words are an id, and a file has that name, too
	found  []signature.Finding
}

// lookUp finds out whether the words are an id, a file, standard input or a text, and what is known of that.
func lookUp(words []string, stdin io.Reader) (asked, error) {
	a := asked{words: strings.Join(words, " ")}
	if err := severalFiles(words); err != nil {
		return a, err
	}
	var missing error
	if len(words) == 1 {
		_, missing = os.Stat(words[0])
		m, known := signature.ByID(words[0])
		switch {
		case words[0] == "-":
			a.source = "standard input"
			return a, a.scan(stdin)
		case known:
			a.found, a.shadow = []signature.Finding{{Match: m}}, missing == nil
			return a, nil
		case missing == nil:
			return a, a.scanFile(words[0])
		case isPath(words[0]):
			return a, noFile(words[0], missing)
		}
	}
	if err := a.lookUpText(); err != nil || a.found != nil || missing == nil {
		return a, err
	}
	return a, noFile(words[0], missing)
}

// lookUpText explains the words themselves: what somebody may ask by, lines, or at last an exit code that they tell of.
func (a *asked) lookUpText() error {
	if m, known := signature.Lookup(a.words); known {
		a.found = []signature.Finding{{Match: m}}
		return nil
	}
	if err := a.scan(strings.NewReader(a.words)); err != nil || a.found != nil {
		return err
	}
	if code, _ := signature.ExitCode(a.words); code != "" {
		if m, known := signature.ByCode(code); known {
			a.found = []signature.Finding{{Match: m}}
		}
	}
	return nil
}

func (a *asked) scanFile(name string) error {
	file, err := openLog(name)
	if err != nil {
		return err
	}
	defer file.Close()
	a.source = name
	return a.scan(file)
}

func (a *asked) scan(r io.Reader) (err error) {
	if a.source != "" {
		if r, err = asText(r, a.source); err != nil {
			return err
		}
	}
	a.found, a.read, err = signature.Scan(r)
	return err
}

// notes are what is to be said beside what was found.
func (a *asked) notes() []string {
	notes := a.findingNotes()
	if n := a.read.Long; n > 0 {
		are := "are"
		if n == 1 {
			are = "is"
		}
		notes = append(notes, fmt.Sprintf("%s %s longer than %d bytes, of which only the beginning was looked at",
			counted(n, "line"), are, signature.LongestLine))
	}
	return notes
}

func (a *asked) findingNotes() []string {
	const more = "run it again with -x NCCL_DEBUG=INFO, and look for the first error of the rank that failed first; " +
		"gorun explain --list lists what is known"
	switch {
	case a.shadow:
		return []string{fmt.Sprintf("gorun explain ./%s reads the file of that name", a.words)}
	case len(a.found) > 0 && a.source != "" && a.found[0].Kind != signature.Cause:
		return []string{"no line of it names a cause: " + more}
	case len(a.found) > 0:
		return nil
	case a.source != "":
		return []string{fmt.Sprintf("%s: %s, and none is of a known error: %s", a.source, counted(a.read.Lines, "line"),
			more)}
	}
	notes := []string{fmt.Sprintf("%q is no file, no id, and no known error has such a text", a.words)}
	if near := nearIDs(a.words); near != nil {
		return append(notes, "did you mean "+strings.Join(near, ", ")+"?")
	}
	return append(notes, more)
}

// mostNear is how many ids are offered.
const mostNear = 6

// nearIDs are the ids of records that have all the words, or words that begin so: first those whose name or meaning has
// them, then those one of whose texts does.
func nearIDs(asked string) []string {
	words := wordsOf(asked)
	if len(words) == 0 {
		return nil
	}
	var near, far []string
	for _, s := range signature.All() {
		texts := slices.Concat(s.Lines, s.Vague, s.Examples)
		switch {
		case haveAll(s.ID+" "+s.Means, words):
			near = append(near, s.ID)
		case slices.ContainsFunc(texts, func(text string) bool { return haveAll(text, words) }):
			far = append(far, s.ID)
		}
	}
	near = append(near, far...)
	return near[:min(len(near), mostNear)]
}

// wordsOf are the words of a text, small; what is shorter than two letters says nothing.
func wordsOf(text string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}),
		func(word string) bool { return len(word) < 2 })
}

// haveAll reports whether each word is one of a text's, or the beginning of one.
func haveAll(text string, words []string) bool {
	has := wordsOf(text)
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(has, func(h string) bool { return strings.HasPrefix(h, word) })
	})
}

// listErrors lists all that are known, or those of a family.
func (o *explainOptions) listErrors() error {
	families := signature.Families()
	if words := o.words; len(words) > 0 {
		if len(signature.InFamily(words[0])) == 0 {
			return sourceError("--list %s: no such family; there are %s", words[0], strings.Join(families, ", "))
		}
		families = words
	}
	var b strings.Builder
	var list []signature.Finding
	for _, family := range families {
		members := signature.InFamily(family)
		fmt.Fprintf(&b, "%s:\n", members[0].Family)
		var table [][]string
		for i := range members {
			means := members[i].Means
			if codes := members[i].Codes; codes != nil {
				means = strings.Join(codes, ", ") + ": " + means
			}
			table = append(table, []string{fmt.Sprintf("  %-27s", members[i].ID), means})
			list = append(list, signature.Finding{Match: signature.Match{Signature: &members[i]}})
		}
		b.WriteString(aligned(fitted(table, columnsOf(o.stdout))))
	}
	return o.show(explanations(list), b.String)
}

// explanations are findings for programs, whose texts have what the lines held.
func explanations(found []signature.Finding) map[string][]signature.Finding {
	list := append([]signature.Finding{}, found...) // [] as JSON
	for i, f := range list {
		s := *f.Signature
		for _, text := range []*string{&s.Cause, &s.Check, &s.Fix, &s.Hint} {
			*text = f.Match.Text(*text)
		}
		list[i].Signature = &s
	}
	return map[string][]signature.Finding{"found": list}
}

// Widths of what gorun explain prints, in columns: that of the terminal counts within these, and the widest where there
// is none.
const (
	leastWidth = 60
	mostWidth  = 120
	nameWidth  = 9
)

// explainWidth is how wide the text is to be.
func explainWidth(stdout io.Writer) int {
	width := textStyle(stdout).Width
	if width == 0 {
		return mostWidth
	}
	return max(leastWidth, min(width, mostWidth))
}

// text is what a terminal gets: what was found, the most telling first, with blank lines between.
func (a *asked) text(width int) string {
	var b strings.Builder
	for i, f := range a.found {
		if i > 0 {
			b.WriteByte('\n')
		}
		follows := (f.Kind == signature.Symptom || f.Kind == signature.Victim) && a.found[0].Kind == signature.Cause
		writeFinding(&b, f, width, follows)
	}
	return b.String()
}

// kindWords are said behind what a line, or an exit code, means.
func kindWords(f signature.Finding) string {
	switch f.Kind {
	case signature.Symptom:
		if f.Text == "" {
			return "; by itself it leaves the cause open"
		}
		return "; the line leaves the cause open"
	case signature.Victim:
		return "; it follows from another's failure"
	case signature.Note:
		return "; no failure by itself"
	}
	return ""
}

// writeFinding writes one; of what follows from others that were found only that it is there.
func writeFinding(b *strings.Builder, f signature.Finding, width int, follows bool) {
	fmt.Fprintf(b, "%s: %s (%s%s)\n", f.ID, f.Means, f.Family, kindWords(f))
	row := func(name, text string) {
		for _, line := range wrapCommands(text, width-nameWidth-3) {
			fmt.Fprintf(b, "  %-*s %s\n", nameWidth, name, line)
			name = ""
		}
	}
	if f.Text != "" {
		row("line", f.Text)
		seen := fmt.Sprintf("in line %d", f.Line)
		if f.Count > 1 {
			seen = fmt.Sprintf("%d times, first %s", f.Count, seen)
		}
		if len(f.Ranks) > 0 {
			seen += ", of " + ranksOf(f.Ranks)
		}
		if f.Line > 1 || f.Count > 1 || len(f.Ranks) > 0 {
			row("seen", seen)
		}
	}
	if follows {
		return
	}
	row("cause", f.Marked(f.Cause))
	row("check", f.Marked(f.Check))
	row("fix", f.Marked(f.Fix))
	if len(f.Variables) > 0 {
		text := strings.Join(f.Variables, " ")
		if i := slices.IndexFunc(f.Variables, isExplained); i >= 0 {
			text += "; `gorun env --explain " + f.Variables[i] + "` says what that does"
		}
		row("variables", text)
	}
}

func ranksOf(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return "ranks " + job.RankRanges(ranks)
}

// wrapCommands breaks text into lines of at most width characters, but no command in it, whose marks it takes off.
func wrapCommands(text string, width int) []string {
	words := commandWords(text)
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "`", "")
	}
	return wrappedWords(words, " ", width)
}

// commandWords splits text at blanks, but not within a command.
func commandWords(text string) []string {
	inside := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '`' {
			inside = !inside
		}
		return r == ' ' && !inside
	})
}
