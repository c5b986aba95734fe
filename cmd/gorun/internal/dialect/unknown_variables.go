package dialect

import (
	"iter"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/launcher/job"
)

// ownVariables begin with GORUN_ but give no option its default. They are in ranks' environment, say where jobs are
// listed, or belong to gorun's own tests and benchmarks. A star means the rest of a name.
var ownVariables = []string{
	"GORUN_JOB", "GORUN_JOB_ENGINE", "GORUN_JOB_KEY", "GORUN_JOB_STORE", "GORUN_JOB_WORLD", "GORUN_PYTHON",
	"GORUN_TOKEN", "GORUN_RUNTIME_DIR",
	"GORUN_TEST_*", "GORUN_BENCH_*", "GORUN_SOAK",
}

// NoteUnknownVariables notes GORUN_* variables that no option has, such as misspelt ones. Empty ones and
// those that -x passes to ranks do not count.
func (p *Line) NoteUnknownVariables() {
	unknown := slices.DeleteFunc(slices.Sorted(slices.Values(p.around.Names())), func(name string) bool {
		return !strings.HasPrefix(name, "GORUN_") || p.variable(name) == "" || p.exported(name) || slices.ContainsFunc(
			ownVariables, func(own string) bool { return covers(own, name) }) || p.isDefault(name)
	})
	for _, name := range slices.Compact(unknown) {
		text := name + ": no option has this variable"
		if meant := p.dialect.nearestVariable(name); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		p.Note(text)
	}
}

// covers reports whether pattern, which may end with a star, matches name.
func covers(pattern, name string) bool {
	prefix, star := strings.CutSuffix(pattern, "*")
	return pattern == name || star && strings.HasPrefix(name, prefix)
}

// exported reports whether -x passes the variable to ranks.
func (p *Line) exported(name string) bool {
	return slices.ContainsFunc(p.Spec.Exports, func(e job.Export) bool { return covers(e.Name, name) })
}

// isDefault reports whether the variable belongs to an option of any dialect or command: it may be set for all of
// them.
func (p *Line) isDefault(name string) bool {
	in := func(options iter.Seq[*Option]) bool {
		for o := range options {
			if slices.Contains(o.Variables(), name) {
				return true
			}
		}
		return false
	}
	return in(Gorun.Options) || in(Launch.Options) || slices.ContainsFunc(p.around.commands(), func(c *cli.Command) bool {
		return in((&Dialect{flags: c.Flags}).Options)
	})
}

// nearestVariable returns the variable that a misspelt one probably means, or "". It is that of the option with this
// name (GORUN_WDIR) or its substitute (GORUN_NPROC), of one that begins so, or of the one with the fewest edits.
func (d *Dialect) nearestVariable(name string) string {
	typed := "--" + strings.ToLower(strings.TrimPrefix(name, "GORUN_"))
	loose := d.loose() // -n is --n here
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
	if meant == nil || meant.Variables() == nil {
		return ""
	}
	return meant.Variables()[0] // the strongest is GORUN_*
}

// substitute returns the option that the help says to use, or to be the same: "--ssh".
func (o *Option) substitute() string {
	for _, verb := range []string{"use ", "act as "} {
		if use, found := strings.CutPrefix(o.Help, verb); found {
			name, _, _ := strings.Cut(use, " ")
			return strings.TrimRight(name, ",;")
		}
	}
	return ""
}
