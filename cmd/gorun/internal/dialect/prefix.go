package dialect

import (
	"slices"
	"strings"

	"gorun/launcher/job"
)

// setPrefix sets the directory in which Open MPI is installed.
func (p *Line) setPrefix(a Arg) error { return keep(&p.current().prefix)(a) }

// current returns the state of the current program.
func (p *Line) current() *programState { return &p.programs[len(p.programs)-1] }

// resolvePrefixes puts the directories of --prefix at the head of ranks' PATH and LD_LIBRARY_PATH, as Open MPI does. In
// gorun's own dialect a prefix before the first program holds for all.
func (p *Line) resolvePrefixes() {
	for i := range p.Spec.Apps {
		app, prefix := &p.Spec.Apps[i], p.programs[i].prefix
		if prefix.From == "" && !p.dialect.colons {
			prefix = p.programs[0].prefix
		}
		if prefix.From == "" {
			continue
		}
		dir := strings.TrimRight(prefix.Value, "/")
		for _, v := range []struct{ name, dir string }{{"PATH", dir + "/bin"}, {"LD_LIBRARY_PATH", dir + "/lib"}} {
			value := joined(":", v.dir, p.exportedValue(app, v.name))
			app.Exports = append(app.Exports, job.Export{Name: v.name, Value: value, HasValue: true, From: prefix.From})
		}
	}
}

// exportedValue returns the value of a variable in the ranks of a program: of its own exports, else the job's, else
// of this environment.
func (p *Line) exportedValue(app *job.App, name string) string {
	for _, list := range [][]job.Export{app.Exports, p.Spec.Exports} {
		for _, e := range slices.Backward(list) {
			switch {
			case !covers(e.Name, name):
			case e.Remove || e.HasValue:
				return e.Value
			default:
				return p.variable(name)
			}
		}
	}
	if p.noEnvFrom != "" {
		return ""
	}
	return p.variable(name)
}
