package dialect

import (
	"iter"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/launcher/job"
)

// ownVariables begin with GORUN_ and are no option's default: they are gorun's in
// the environment of ranks, say where jobs are listed, or are (the last three) of its own
// tests and measurements.
// A star stands for the rest of a name.
var ownVariables = []string{
	"GORUN_JOB", "GORUN_JOB_ENGINE", "GORUN_JOB_KEY", "GORUN_JOB_STORE", "GORUN_JOB_WORLD", "GORUN_PYTHON",
	"GORUN_TOKEN", "GORUN_RUNTIME_DIR",
	"GORUN_TEST_*", "GORUN_BENCH_*", "GORUN_SOAK",
}

// NoteStrangers remarks on variables that look like an option's default and are
// nobody's: a mistyped one would otherwise have no effect and no trace. Empty ones
// count as not set, and what -x names is meant for ranks.
func (p *Line) NoteStrangers() {
	var strange []string
	for _, name := range p.around.Names() {
		if strings.HasPrefix(name, "GORUN_") && !slices.ContainsFunc(ownVariables, func(own string) bool {
			return covers(own, name)
		}) {
			strange = append(strange, name)
		}
	}
	slices.Sort(strange)
	for _, name := range slices.Compact(strange) {
		if value, _ := p.around.Lookup(name); value == "" || p.exported(name) || p.isDefault(name) {
			continue
		}
		text := name + ": no option has this variable"
		if meant := p.dialect.nearestVariable(name); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		p.Note(text)
	}
}

// covers reports whether a name, or a pattern with a star at its end, means name.
func covers(pattern, name string) bool {
	prefix, star := strings.CutSuffix(pattern, "*")
	return pattern == name || star && strings.HasPrefix(name, prefix)
}

// exported reports whether -x gives ranks the variable.
func (p *Line) exported(name string) bool {
	return slices.ContainsFunc(p.Spec.Exports, func(e job.Export) bool { return covers(e.Name, name) })
}

// isDefault reports whether a variable is an option's of any dialect or command: one may be
// set for all of them.
func (p *Line) isDefault(name string) bool {
	of := func(options iter.Seq[*Option]) bool {
		for o := range options {
			if slices.Contains(o.Variables(), name) {
				return true
			}
		}
		return false
	}
	return of(Gorun.Options) || of(Launch.Options) || slices.ContainsFunc(p.around.commands(), func(c *cli.Command) bool {
		return of((&Dialect{flags: c.Flags}).Options)
	})
}

// nearestVariable is the variable that a mistyped one is meant to be, or "": of the
// option that has this name (GORUN_WDIR), that is to be used in place of it
// (GORUN_NPROC), that begins so, or that has the fewest edits from it.
func (d *Dialect) nearestVariable(name string) string {
	typed := "--" + strings.ToLower(strings.TrimPrefix(name, "GORUN_"))
	loose := *d
	loose.strict = false // -n is --n here
	meant := loose.exact(typed)
	if meant == nil {
		meant, _ = loose.begun(typed)
	}
	if meant == nil {
		_, meant = loose.nearest(typed[2:])
	}
	if meant != nil && (meant.Refused() || meant.Group == GroupMPI) {
		meant = loose.exact(meant.substitute())
	}
	if meant == nil {
		return ""
	}
	for _, v := range meant.Variables() {
		if strings.HasPrefix(v, "GORUN_") {
			return v
		}
	}
	return ""
}

// substitute is the option that the help says to use, or to be the same, as it stands
// there.
func (o *Option) substitute() string {
	use, found := strings.CutPrefix(o.Help, "use ")
	if !found {
		use, found = strings.CutPrefix(o.Help, "the same as ")
	}
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(use, " ")
	return strings.TrimSuffix(name, ",")
}
