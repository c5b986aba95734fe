package dialect

import (
	"fmt"
	"slices"
	"strings"

	"gorun/internal/spelling"
)

// explainUnknown says that the dialect has no such option and what may have been
// meant; meant is that option, or one of several that all take a value or all
// take none, where there is one.
func (d *Dialect) explainUnknown(typed string) (meant *Option, problem error) {
	if meant, found := d.ambiguous(typed); found != nil {
		return meant, fmt.Errorf("%s is ambiguous: it may be %s", typed, strings.Join(found, " or "))
	}
	if o := d.otherDashes(typed); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, Spelling(strings.TrimLeft(typed, "-")))
	}
	if meant, problem = d.elsewhere(typed); problem != nil {
		return meant, problem
	}
	if meant, found := d.begun(typed); found != nil {
		return meant, fmt.Errorf("unknown option %s: did you mean %s?", typed, strings.Join(found, " or "))
	}
	if name, o := d.nearest(strings.TrimLeft(typed, "-")); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, Spelling(name))
	}
	return nil, fmt.Errorf("unknown option %s", typed)
}

// otherDashes finds the option that is meant where a strict dialect only misses a
// dash, or has one too many.
func (d *Dialect) otherDashes(typed string) *Option {
	loose := *d
	loose.strict = false
	return loose.exact(typed)
}

// elsewhere says who has an option that this dialect lacks.
func (d *Dialect) elsewhere(typed string) (meant *Option, problem error) {
	if o := Launch.exact(typed); o != nil && !o.Refused() && Gorun.exact(typed) == nil {
		return o, fmt.Errorf("unknown option %s: only gorun launch has it, where --local-rank is put before a script's "+
			"arguments", typed)
	}
	if o, _, _ := Gorun.match(typed); o != nil && !o.Refused() {
		return o, fmt.Errorf("unknown option %s: gorun has it, %s does not; %s", typed, d.Name, d.instead(o))
	}
	return nil, nil
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

// ambiguous lists the options that typed is a prefix of, where it is too short,
// and says which one is meant as far as values go (see alike).
func (d *Dialect) ambiguous(typed string) (meant *Option, names []string) {
	prefix, long := strings.CutPrefix(typed, "--")
	if !d.strict || !long || prefix == "" {
		return nil, nil
	}
	job := d.job()
	for i := range job.tables {
		found := withPrefix(job.table(i), strings.ReplaceAll(prefix, "_", "-"))
		for _, o := range found {
			names = append(names, Spelling(o.Names[0]))
		}
		if len(names) > 0 {
			return alike(found), names
		}
	}
	return nil, nil
}

// likely are the options, those first that are likely to be meant: gorun's own, then those of other launchers that do
// something, then those that do nothing, then those that are refused.
func (d *Dialect) likely() []*Option {
	nearness := []Group{GroupMPI, GroupAccepted, GroupRefused}
	return slices.SortedStableFunc(d.Options, func(a, b *Option) int {
		return slices.Index(nearness, a.Group) - slices.Index(nearness, b.Group)
	})
}

// begun lists names of the options that typed is the beginning of, those that are
// not refused first: whoever knows an option's name shortens it.
func (d *Dialect) begun(typed string) (meant *Option, names []string) {
	const most = 4 // names; with more of them the first letters said nothing
	prefix := strings.ToLower(strings.ReplaceAll(strings.TrimLeft(typed, "-"), "_", "-"))
	if len(prefix) < 2 || strings.HasPrefix(typed, "---") {
		return nil, nil
	}
	var found []*Option
	for _, o := range d.likely() {
		at := slices.IndexFunc(o.Names, func(n string) bool { return strings.HasPrefix(n, prefix) })
		if at >= 0 {
			found, names = append(found, o), append(names, Spelling(o.Names[at]))
		}
	}
	if len(found) > most {
		return alike(found), names[:most]
	}
	return alike(found), names
}

// alike returns the first of several options where all take a value or none does.
func alike(options []*Option) *Option {
	if len(options) == 0 || slices.ContainsFunc(options, func(o *Option) bool {
		return o.TakesValue() != options[0].TakesValue()
	}) {
		return nil
	}
	return options[0]
}

// nearest returns the name with the fewest edits from typed and its option, or
// nothing where even that one is far. What is not refused is preferred.
func (d *Dialect) nearest(typed string) (name string, option *Option) {
	typed = strings.ToLower(strings.ReplaceAll(typed, "_", "-"))
	best := min(len(typed)/3, 3) + 1
	for _, o := range d.likely() {
		for _, n := range o.Names {
			if e := spelling.Distance(typed, strings.ToLower(n), best); len(n) > 1 && e < best {
				name, option, best = n, o, e
			}
		}
	}
	return name, option
}

// CommandFor is the command of gorun that a word was probably meant to be which names no program: "gorun ps"; "" for
// none.
func CommandFor(word string, names []string) string {
	switch word {
	case "status", "jobs", "list":
		return "gorun ps"
	case "report":
		return "gorun --report FILE PROGRAM"
	case "run":
		return "gorun PROGRAM"
	}
	best, meant := min(len(word)/3, 2)+1, ""
	for _, name := range names {
		if e := spelling.Distance(word, name, best); e < best {
			best, meant = e, "gorun "+name
		}
	}
	return meant
}
