package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
	"gorun/internal/spelling"
	"gorun/launcher/job"
)

// explainUnknown says that the dialect has no such option, and suggests others. meant is the likely one, or any of
// several if all of them take a value or none does; else nil.
func (d *Dialect) explainUnknown(typed string) (meant *Option, problem error) {
	if found := d.withPrefix(typed); len(found) > 1 {
		names := make([]string, len(found))
		for i, o := range found {
			names[i] = Spelling(o.Name())
		}
		return alike(found), fmt.Errorf("%s is ambiguous: it may be %s", typed, enumerate(names, "or"))
	}
	if o := d.loose().exact(typed); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, Spelling(strings.TrimLeft(typed, "-")))
	}
	if o := Launch.exact(typed); o != nil && !o.Refused() && Gorun.exact(typed) == nil {
		return o, fmt.Errorf("unknown option %s: only gorun launch has it, where --local-rank is put before a script's "+
			"arguments", typed)
	}
	if o, _, _ := Gorun.match(typed); o != nil {
		why := "gorun has it, " + d.Name + " does not; "
		if o.Refused() {
			if text := d.suggestion(o, ""); text != "" {
				return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, text)
			}
			o, why = Gorun.exact(o.substitute()), ""
		}
		if o != nil {
			return o, fmt.Errorf("unknown option %s: %s%s", typed, why, d.instead(o))
		}
	}
	if meant, found := d.begun(typed); found != nil {
		return meant, fmt.Errorf("unknown option %s: did you mean %s?", typed, enumerate(found, "or"))
	}
	if text, o := d.abbreviated(strings.TrimLeft(typed, "-")); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, text)
	}
	if text, o := d.nearest(strings.TrimLeft(typed, "-")); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, text)
	}
	return nil, fmt.Errorf("unknown option %s", typed)
}

// enumerate returns "a, b or c", with such a word before the last one.
func enumerate(names []string, word string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// loose returns the dialect with any number of dashes before names.
func (d *Dialect) loose() *Dialect {
	loose := *d
	loose.strict = false
	return &loose
}

// instead says what to do without an option of gorun's own dialect.
func (d *Dialect) instead(missing *Option) string {
	for o := range d.Options {
		if missing.Family != familyNone && o.Family == missing.Family {
			return "call gorun, or use " + o.Usage()
		}
	}
	return "call gorun for it"
}

// likely compares how likely options are meant: gorun's own first, then other launchers', then those that do
// nothing, then refused ones.
func likely(a, b *Option) int { return cmp.Compare(max(a.Group, GroupLook), max(b.Group, GroupLook)) }

// suggestion returns how to write an option that was probably meant: a refused one is replaced by what to use
// instead, "" if none exists.
func (d *Dialect) suggestion(o *Option, name string) string {
	if !o.Refused() {
		return Spelling(name)
	}
	if instead := d.exact(o.substitute()); instead != nil && instead.words < 2 { // not --mca
		return o.substitute()
	}
	return ""
}

// lists reports whether the dialect's help has an option.
func (d *Dialect) lists(o *Option) bool {
	return o.Group < numHelpGroups || o.Group == GroupMPI && d.slots != slotsOfGorun
}

// begun returns suggestions for a word that begins names of options: those that lack a letter or two, then gorun's own,
// the shortest first. Options that the help does not list are suggested if it lists none of them.
func (d *Dialect) begun(typed string) (meant *Option, suggestions []string) {
	const most, near = 4, 2 // with more of them, the first letters said nothing
	prefix := strings.ToLower(strings.ReplaceAll(strings.TrimLeft(typed, "-"), "_", "-"))
	if len(prefix) < 2 || strings.HasPrefix(typed, "---") {
		return nil, nil
	}
	var found []*Option
	names := map[*Option]string{}
	for o := range d.Options {
		for _, n := range o.AllNames() {
			if names[o] == "" && strings.HasPrefix(n, prefix) {
				found, names[o] = append(found, o), n
			}
		}
	}
	distance := func(o *Option) int { return len(names[o]) - len(prefix) }
	slices.SortStableFunc(found, func(a, b *Option) int {
		if distance(a) <= near || distance(b) <= near {
			return distance(a) - distance(b)
		}
		return cmp.Or(likely(a, b), distance(a)-distance(b))
	})
	listed := slices.ContainsFunc(found, d.lists)
	for _, o := range found {
		text := d.suggestion(o, names[o])
		if text != "" && !slices.Contains(suggestions, text) && (!listed || d.lists(o) || o.Refused()) {
			suggestions = append(suggestions, text)
		}
	}
	return alike(found), suggestions[:min(len(suggestions), most)]
}

// alike returns the first of several options if all take a value or none does.
func alike(options []*Option) *Option {
	if len(options) == 0 || slices.ContainsFunc(options, func(o *Option) bool {
		return o.TakesValue() != options[0].TakesValue()
	}) {
		return nil
	}
	return options[0]
}

// abbreviated returns a suggestion for a name of which words were left out, as --allow-root for --allow-run-as-root.
func (d *Dialect) abbreviated(typed string) (suggestion string, option *Option) {
	words := strings.Split(typed, "-")
	for o := range d.Options {
		for _, n := range o.AllNames() {
			at := 0
			for part := range strings.SplitSeq(n, "-") {
				if at < len(words) && part == words[at] {
					at++
				}
			}
			if at == len(words) && at > 1 && !o.Refused() {
				return Spelling(n), o
			}
		}
	}
	return "", nil
}

// nearest returns a suggestion for a misspelt name, and the option with the fewest edits from it; "" if all are far.
func (d *Dialect) nearest(typed string) (suggestion string, option *Option) {
	typed = strings.ToLower(strings.ReplaceAll(typed, "_", "-"))
	best := min(len(typed)/3, 3) + 1
	for _, o := range slices.SortedStableFunc(d.Options, likely) {
		for _, n := range o.AllNames() {
			if e := spelling.Distance(typed, strings.ToLower(n), best); len(n) > 1 && e < best {
				if text := d.suggestion(o, n); text != "" {
					suggestion, option, best = text, o, e
				}
			}
		}
	}
	return suggestion, option
}

// insteadOf returns what to run in place of a word that users take for a command of gorun, or "". Some of these words
// are programs that a system has, such as init and kill.
func insteadOf(word string) string {
	switch word {
	case "init", "install", "setup", "check", "diagnose":
		return "gorun doctor"
	case "status", "list", "jobs", "job", "queue", "show":
		return "gorun ps"
	case "history":
		return "gorun ps -a"
	case "kill", "cancel", "shutdown", "abort":
		return "gorun stop JOB"
	case "attach", "log":
		return "gorun logs --follow"
	case "start", "exec":
		return "gorun PROGRAM"
	case "submit", "batch":
		return "gorun sbatch PROGRAM"
	case "config":
		return "gorun help environment"
	case "monitor":
		return "gorun top"
	case "nodes":
		return "gorun hosts check"
	case "info":
		return "gorun topo"
	}
	return ""
}

// refuseMissingCommand refuses a program that was probably meant as a command.
func (p *Line) refuseMissingCommand(word string) {
	if command := insteadOf(word); command != "" {
		p.Problem(HelpNeeded(fmt.Errorf("%s: not a command of gorun; gorun run %[1]s starts a program of that name", word),
			command))
	}
}

// Meant returns the command line that was probably meant by a program that does not exist, or "": another one of the
// job, or a command of gorun with one of these names.
func (inv *Invocation) Meant(names []string) string {
	app := inv.Spec.Apps[0]
	if words := retyped(app); words != nil {
		return inv.Command(0, words...)
	}
	if command := insteadOf(app.Program); command != "" {
		return command
	}
	words := []string{Gorun.Name, NearestName(app.Program, names)}
	switch words[1] {
	case "":
		return ""
	case "run":
		words = append(words, inv.alone()...)
	}
	return shellwords.Join(append(words, app.Args...))
}

// retyped returns the words that were probably meant by a program that does not exist: without a launcher, with an
// option before a number or a variable, with dashes before an option's name, without a second number, without "--"
// before options, or without quotes around all words; nil for others.
func retyped(app job.App) []string {
	words, more := append([]string{app.Program}, app.Args...), len(app.Args) > 0
	_, err := strconv.ParseUint(app.Program, 10, 20)
	name, _, isVariable := strings.Cut(app.Program, "=")
	switch launcher, args := launcherIn(app); {
	case launcher != "":
		return args
	case more && err == nil && app.NumRanks > 0:
		return app.Args
	case more && err == nil:
		return append([]string{"-n"}, words...)
	case more && isVariable && name != "" && name == strings.ToUpper(name):
		return append([]string{"-x"}, words...)
	case looksLikeOption(app.Program):
		return words
	case more && Gorun.exact(Spelling(app.Program)) != nil: // n 2
		words[0] = Spelling(words[0])
		if len(Gorun.rewrite(words).program) == 0 {
			words = append(words, "PROGRAM")
		}
		return words
	case !more && strings.Contains(app.Program, " "):
		return strings.Fields(app.Program)
	}
	return nil
}

// NearestName returns the name that a word was probably meant to be, or "".
func NearestName(word string, names []string) (nearest string) {
	const most = 2
	word = strings.ToLower(word)
	best := most + 1
	for _, name := range names {
		limit := min(len(word)/3, most)
		if len(word) > 3 && strings.HasPrefix(name, word[:3]) {
			limit = most
		}
		if e := spelling.Distance(word, name, best); e <= limit && e < best {
			nearest, best = name, e
		}
	}
	return nearest
}
