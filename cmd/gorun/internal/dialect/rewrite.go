package dialect

import (
	"fmt"
	"slices"
	"strings"
)

// Occurrence is one option on a command line.
type Occurrence struct {
	Option *Option
	Value  string // of a flag "true", or what follows its "="
	Text   string // the words as they were typed
	typed  []string
}

// Words are the option as it can be typed.
func (o Occurrence) Words() []string {
	name := Spelling(o.Option.Names[0])
	switch {
	case o.Option.TakesValue() && o.Value != "" && o.Value[0] != '-':
		return []string{name, o.Value}
	case !o.Option.TakesValue() && o.Value == "true":
		return []string{name}
	}
	return []string{name + "=" + o.Value}
}

// swallowed says what an option took where no program is left behind it: free text, such as a
// variable's name, may have been meant as the program. "" where that is hardly so.
func (o Occurrence) swallowed() string {
	if len(o.typed) < 2 {
		return ""
	}
	took := strings.Join(o.typed[1:], " ")
	last := o.typed[len(o.typed)-1]
	isFile := strings.Contains(last, "/") || strings.HasSuffix(last, ".py")
	if variable := strings.HasPrefix(o.Option.Value, "NAME") || o.Option.words == 2; !isFile &&
		(!variable || strings.Contains(took, "=")) {
		return ""
	}
	return fmt.Sprintf("; %s took %s for its %s", o.typed[0], took, o.Option.Value)
}

// rewritten is a command line, or its part up to a `:`, in the one form that
// urfave/cli reads.
type rewritten struct {
	options  []Occurrence
	program  []string // the program and its arguments, never touched
	ended    bool     // by "--", before the program
	more     bool     // a `:` ended them
	next     []string // what followed it
	problems []error
}

// args is the one form: every option by its first name with its value behind
// "=", then "--", then the program.
func (r rewritten) args() []string {
	args := make([]string, 0, len(r.options)+1+len(r.program))
	for _, o := range r.options {
		args = append(args, "--"+o.Option.Names[0]+"="+o.Value)
	}
	return append(append(args, "--"), r.program...)
}

// rewrite reads options up to the program: the first word that is no option and
// no option's value, or what follows "--".
func (d *Dialect) rewrite(args []string) rewritten {
	var r rewritten
	for len(args) > 0 {
		if meant := pastedOption(args[0]); meant != "" {
			r.problems = append(r.problems,
				fmt.Errorf("%s begins with a dash that texts have and commands have not: write %s", args[0], meant))
			args = slices.Concat([]string{meant}, args[1:])
		}
		if !isOption(args[0]) {
			break
		}
		if args[0] == "--" {
			r.program, r.ended = args[1:], true
			return r
		}
		args = args[d.take(&r, args):]
	}
	r.program = args
	if d.mpmd {
		r.split(d)
	}
	return r
}

// isOption reports whether a word is meant as an option. A lone dash is not.
func isOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// pastedOption is the option that is meant by a word from a text whose hyphens a word processor
// made longer, "" where it is none such.
func pastedOption(word string) string {
	name := strings.TrimLeft(word, "-\u2010\u2011\u2012\u2013\u2014\u2212")
	if strings.HasPrefix(word, "-") && strings.TrimLeft(word, "-") == name || len(name) == len(word) || name == "" {
		return ""
	}
	short, _, _ := strings.Cut(name, "=")
	return strings.Replace(name, short, Spelling(short), 1)
}

// split ends the program at a `:` that begins another one. Called mpirun every
// lone colon does. In gorun's own dialect it may be an argument of the program
// too, so it counts only before options with a number of ranks among them, which
// every program of an MPMD job has to have; options without one are a mistake
// either way. After "--" it never counts.
func (r *rewritten) split(d *Dialect) {
	for i, word := range r.program {
		if word != ":" {
			continue
		}
		known, counted := d.block(r.program[i+1:])
		if counted || d.colons {
			r.next, r.more = r.program[i+1:], true
			r.program = r.program[:i:i]
			return
		}
		if known {
			r.problems = append(r.problems,
				fmt.Errorf("%s after a lone colon: another program needs its number of ranks: write %s", r.program[i+1],
					writeColon))
		}
	}
}

// writeColon says how a `:` is meant for gorun, and how for the program.
const writeColon = "\": -n N PROGRAM\"; for a : that is an argument put -- before the first program"

// block looks at what follows a `:`: whether it begins with an option of ours, and
// whether a number of ranks is among the options before the program.
func (d *Dialect) block(words []string) (known, counted bool) {
	var unused rewritten
	for len(words) > 0 && isOption(words[0]) && words[0] != "--" {
		o, _, _ := d.match(words[0])
		if o == nil && !known && d.cluster(words[0]) == nil {
			return false, false
		}
		known = true
		counted = counted || o != nil && o.Family == FamilyCount && o.block
		words = words[d.take(&unused, words):]
	}
	return known, counted
}

// take reads the option at the head of args and returns how many words it used.
func (d *Dialect) take(r *rewritten, args []string) (used int) {
	option, value, glued := d.match(args[0])
	if option == nil {
		if cluster := d.cluster(args[0]); cluster != nil {
			r.options = append(r.options, cluster...)
			return 1
		}
		return d.unknown(r, args)
	}
	used = 1
	switch {
	case glued:
	case !option.TakesValue():
		value = "true"
	default:
		words := d.values(option, args[1:])
		if words == nil {
			r.problems = append(r.problems,
				fmt.Errorf("%s needs a value: %s", args[0], strings.TrimSpace(args[0]+" "+option.Value)))
			return 1
		}
		value, used = strings.Join(words, "="), 1+len(words)
	}
	r.options = append(r.options, Occurrence{option, value, Typed(args[:used]), args[:used:used]})
	return used
}

// Typed is words as a message has them; an empty one would not be seen.
func Typed(words []string) string {
	text := strings.Join(words, " ")
	if words[len(words)-1] == "" {
		text += "''"
	}
	return text
}

// values returns the words that are option's value, or nil where they are
// missing: at the end, or where another option stands in their place.
func (d *Dialect) values(option *Option, args []string) []string {
	n := max(option.words, 1)
	if n == 2 && len(args) > 0 && strings.Contains(args[0], "=") {
		n = 1 // -genv NAME=VALUE
	}
	if len(args) < n || args[0] == "--" {
		return nil
	}
	if isOption(args[0]) {
		if other, _, _ := d.match(args[0]); other != nil {
			return nil
		}
	}
	// -mca KEY -n 2 ./prog; a flag may well be a value: -mca plm_rsh_args -v
	if n == 2 && isOption(args[1]) && !strings.Contains(args[1], "=") {
		if other, _, _ := d.match(args[1]); other != nil && other.TakesValue() {
			return nil
		}
	}
	return args[:n]
}

// match finds the option that a word names, and the value glued to it, if one
// is: --name=value, -n4.
func (d *Dialect) match(word string) (option *Option, value string, glued bool) {
	typed, value, glued := strings.Cut(word, "=")
	if option = d.exact(typed); option == nil {
		option = d.byPrefix(typed)
	}
	if option != nil {
		return option, value, glued
	}
	if body, ok := strings.CutPrefix(word, "-"); ok && !strings.HasPrefix(body, "-") {
		return d.attached(body)
	}
	return nil, "", false
}

// exact finds an option by one of its names.
func (d *Dialect) exact(typed string) *Option {
	name, ok := d.name(typed)
	if !ok {
		return nil
	}
	return withName(d.Options, name)
}

// name takes the dashes off a word and puts dashes between its words. It is not
// ok where the dialect is strict about one dash or two and the word is not.
func (d *Dialect) name(typed string) (name string, ok bool) {
	name, long := strings.CutPrefix(typed, "--")
	if !long {
		if name, ok = strings.CutPrefix(typed, "-"); !ok {
			return "", false
		}
	}
	if name == "" || name[0] == '-' || d.strict && long != (len(name) > 1) {
		return "", false
	}
	if strings.IndexByte(name, '_') > 0 {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return name, true
}

// byPrefix finds the one option that begins with typed, as Python's argparse
// does: torchrun's own options first, so that ours make none of its prefixes
// ambiguous. The twins with underscores are one option.
func (d *Dialect) byPrefix(typed string) *Option {
	prefix, long := strings.CutPrefix(typed, "--")
	if !d.strict || !long || prefix == "" {
		return nil
	}
	prefix = strings.ReplaceAll(prefix, "_", "-")
	job := d.job()
	for i := range job.tables {
		if found := withPrefix(job.table(i), prefix); len(found) > 0 {
			if len(found) > 1 {
				return nil
			}
			return found[0]
		}
	}
	return nil
}

// withPrefix lists the options of a table that have a long name with the prefix.
func withPrefix(table []Option, prefix string) []*Option {
	var found []*Option
	for i := range table {
		for _, n := range table[i].Names {
			if len(n) > 1 && strings.HasPrefix(n, prefix) {
				found = append(found, &table[i])
				break
			}
		}
	}
	return found
}

// attached finds a short option whose value is glued to it: -n4, -np4, -r0:1.
func (d *Dialect) attached(body string) (option *Option, value string, glued bool) {
	longest := 0
	for o := range d.Options {
		if !o.Attached {
			continue
		}
		for _, n := range o.Names {
			rest, ok := strings.CutPrefix(body, n)
			if ok && len(n) > longest && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
				option, value, longest = o, rest, len(n)
			}
		}
	}
	return option, value, option != nil
}

// cluster reads several one-letter flags in one word: -vv, -qv.
func (d *Dialect) cluster(word string) []Occurrence {
	if len(word) < 3 || word[1] == '-' {
		return nil
	}
	var all []Occurrence
	for i := 1; i < len(word); i++ {
		o := d.exact("-" + word[i:i+1])
		if o == nil || o.TakesValue() {
			return nil
		}
		letter := "-" + word[i:i+1]
		all = append(all, Occurrence{o, "true", letter, []string{letter}})
	}
	return all
}

// unknown reports an option that the dialect does not have. Where it looks like
// one that takes a value, its value is skipped too: the next words would
// otherwise be taken for the program.
func (d *Dialect) unknown(r *rewritten, args []string) (used int) {
	typed, _, glued := strings.Cut(args[0], "=")
	meant, problem := d.explainUnknown(typed)
	r.problems = append(r.problems, helpNeeded{problem})
	if !glued && meant != nil && meant.TakesValue() {
		return 1 + len(d.values(meant, args[1:]))
	}
	return 1
}
