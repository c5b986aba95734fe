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
	Text   string // as typed
	typed  []string
}

// Words returns the option as it can be typed.
func (o Occurrence) Words() []string {
	name := Spelling(o.Option.Name())
	switch {
	case o.Option.TakesValue() && o.Value != "" && o.Value[0] != '-':
		return []string{name, o.Value}
	case !o.Option.TakesValue() && o.Value == "true":
		return []string{name}
	}
	return []string{name + "=" + o.Value}
}

// swallowed returns a hint for a line without a program, if the option's value, such as a
// variable's name, may have been meant as the program.
func (o Occurrence) swallowed() string {
	if len(o.typed) < 2 {
		return ""
	}
	value, last := strings.Join(o.typed[1:], " "), o.typed[len(o.typed)-1]
	isFile := strings.Contains(last, "/") || strings.HasSuffix(last, ".py")
	isVariable := strings.HasPrefix(o.Option.Value, "NAME") || o.Option.words == 2
	if !isFile && (!isVariable || strings.Contains(value, "=")) {
		return ""
	}
	return fmt.Sprintf("; %s took %s for its %s", o.typed[0], value, o.Option.Value)
}

// rewritten is a command line, or its part up to a `:`, in the form that urfave/cli reads.
type rewritten struct {
	options  []Occurrence
	program  []string // the program and its arguments, as they are
	ended    bool     // by "--", before the program
	more     bool     // a `:` follows
	next     []string // words after it
	problems []error
}

// args returns every option as --FIRST-NAME=VALUE, then "--", then the program.
func (r rewritten) args() []string {
	args := make([]string, 0, len(r.options)+1+len(r.program))
	for _, o := range r.options {
		args = append(args, "--"+o.Option.Name()+"="+o.Value)
	}
	return append(append(args, "--"), r.program...)
}

// rewrite reads options up to the program: the first word that is neither an option nor an
// option's value, or the word after "--".
func (d *Dialect) rewrite(args []string) rewritten {
	var r rewritten
	for len(args) > 0 {
		if meant := pastedOption(args[0]); meant != "" {
			r.problems = append(r.problems,
				fmt.Errorf("%s starts with a typographic dash: write %s", args[0], meant))
			args = slices.Concat([]string{meant}, args[1:])
		}
		if !looksLikeOption(args[0]) {
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

// before returns what args have before the program, without "--" if the program is the first: no option begins there.
func (r rewritten) before(args []string, first bool) []string {
	end := len(args) - len(r.program) - len(r.next)
	if r.more {
		end-- // its colon
	}
	if r.ended && first {
		end--
	}
	return args[:end:end]
}

// looksLikeOption reports whether a word begins with a dash and has more.
func looksLikeOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// pastedOption returns the option that a word with typographic dashes means, or "".
func pastedOption(word string) string {
	name := strings.TrimLeft(word, "-\u2010\u2011\u2012\u2013\u2014\u2212")
	if name == "" || name == strings.TrimLeft(word, "-") {
		return ""
	}
	short, _, _ := strings.Cut(name, "=")
	return strings.Replace(name, short, Spelling(short), 1)
}

// split ends the program at a `:` that begins another one. Under mpirun's names every lone colon does. In gorun's
// own dialect it may also be an argument, so it needs options with a number of ranks after it. After "--" no
// colon counts.
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

// writeColon is how to write a `:` for gorun, and how for the program.
const writeColon = "`: -n N PROGRAM`; for a : that is an argument put -- before the first program"

// block reports whether the words after a `:` begin with a known option, and whether a number of ranks
// is among the options before the program.
func (d *Dialect) block(words []string) (known, counted bool) {
	for len(words) > 0 && looksLikeOption(words[0]) && words[0] != "--" {
		o, _, _ := d.match(words[0])
		if o == nil && !known && d.cluster(words[0]) == nil {
			return false, false
		}
		known = true
		counted = counted || o != nil && o.Family == FamilyCount && o.block
		words = words[d.take(&rewritten{}, words):]
	}
	return known, counted
}

// take reads the option at the head of args and returns how many words it has.
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

// Typed joins words for a message, and quotes an empty last one.
func Typed(words []string) string {
	text := strings.Join(words, " ")
	if words[len(words)-1] == "" {
		text += "''"
	}
	return text
}

// values returns the words of an option's value, or nil if the line ends or another option
// follows.
func (d *Dialect) values(option *Option, args []string) []string {
	n := max(option.words, 1)
	if n == 2 && len(args) > 0 && strings.Contains(args[0], "=") {
		n = 1 // -genv NAME=VALUE
	}
	if len(args) < n || args[0] == "--" {
		return nil
	}
	if looksLikeOption(args[0]) {
		if other, _, _ := d.match(args[0]); other != nil {
			return nil
		}
	}
	// -mca KEY -n 2 ./prog; but a flag may be a value: -mca plm_rsh_args -v
	if n == 2 && looksLikeOption(args[1]) && !strings.Contains(args[1], "=") {
		if other, _, _ := d.match(args[1]); other != nil && other.TakesValue() {
			return nil
		}
	}
	return args[:n]
}

// match finds the option that a word names, and a value in the same word: --name=value, -n4.
func (d *Dialect) match(word string) (option *Option, value string, glued bool) {
	typed, value, glued := strings.Cut(word, "=")
	if option = d.exact(typed); option == nil {
		if found := d.withPrefix(typed); len(found) == 1 {
			option = found[0]
		}
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
	name, long := strings.CutPrefix(typed, "--")
	if !long {
		name = strings.TrimPrefix(typed, "-")
	}
	if name == typed || name == "" || name[0] == '-' || d.strict && long != (len(name) > 1) {
		return nil
	}
	if strings.IndexByte(name, '_') > 0 {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return withName(d.Options, name)
}

// withPrefix returns the options with a long name that begins with typed, as Python's argparse does. The first
// table that has any wins: torchrun's is first, so gorun's options make no prefix of torchrun's ambiguous.
func (d *Dialect) withPrefix(typed string) (found []*Option) {
	prefix, long := strings.CutPrefix(typed, "--")
	if !d.strict || !long || prefix == "" {
		return nil
	}
	prefix = strings.ReplaceAll(prefix, "_", "-")
	line := d.job()
	for i := 0; i < len(line.tables) && found == nil; i++ {
		for _, o := range pointers(line.table(i)) {
			if slices.ContainsFunc(o.AllNames(), func(n string) bool { return len(n) > 1 && strings.HasPrefix(n, prefix) }) {
				found = append(found, o)
			}
		}
	}
	return found
}

// attached finds a short option with its value in the same word: -n4, -np4, -r0:1.
func (d *Dialect) attached(body string) (option *Option, value string, glued bool) {
	longest := 0
	for o := range d.Options {
		if !o.Attached {
			continue
		}
		for _, n := range o.AllNames() {
			rest, ok := strings.CutPrefix(body, n)
			if ok && len(n) > longest && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
				option, value, longest = o, rest, len(n)
			}
		}
	}
	return option, value, option != nil
}

// cluster reads several one-letter flags in one word: -vv, -qv.
func (d *Dialect) cluster(word string) (all []Occurrence) {
	if len(word) < 3 || word[1] == '-' {
		return nil
	}
	for _, c := range []byte(word[1:]) {
		letter := "-" + string(rune(c))
		o := d.exact(letter)
		if o == nil || o.TakesValue() {
			return nil
		}
		all = append(all, Occurrence{o, "true", letter, []string{letter}})
	}
	return all
}

// unknown reports an option that the dialect does not have. If it looks like one with a value, it skips the value,
// too: the next words would otherwise be the program.
func (d *Dialect) unknown(r *rewritten, args []string) (used int) {
	typed, _, glued := strings.Cut(args[0], "=")
	meant, problem := d.explainUnknown(typed)
	r.problems = append(r.problems, helpNeeded{error: problem})
	if !glued && meant != nil && meant.TakesValue() {
		return 1 + len(d.values(meant, args[1:]))
	}
	return 1
}
