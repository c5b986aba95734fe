package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/term"

	"gorun/launcher/doctor/signature"
)

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
	if m, known := signature.Asked(a.words); known {
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
