package dialect

import (
	"slices"
	"strings"

	"gorun/launcher/job"
)

// setEnvAll takes -envall. What one program's ranks have of this environment all others have,
// too: it is what Hydra does without an option.
func (p *Line) setEnvAll(a Arg) error {
	if a.On {
		p.mpi.whole, p.Spec.ExportAll = a, true
	}
	return nil
}

// setTuningData takes Intel MPI's -tune, which is a variable to its library.
func (p *Line) setTuningData(a Arg) error {
	if p.tuned(a) {
		return nil
	}
	p.export(a, true, "I_MPI_TUNING_BIN", a.Value)
	return text(new(string), a)
}

// setPrefix takes the folder in which Open MPI is installed.
func (p *Line) setPrefix(a Arg) error {
	p.programs[len(p.programs)-1].prefix = a
	return text(new(string), a)
}

// finishPrefixes puts the folders of --prefix before what ranks have in PATH and in
// LD_LIBRARY_PATH, on every host, as Open MPI does. In gorun's own dialect what stands before
// the first program holds for all.
func (p *Line) finishPrefixes() {
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
			value := joined(":", v.dir, p.valueFor(app, v.name))
			app.Exports = append(app.Exports, job.Export{Name: v.name, Value: value, HasValue: true, From: prefix.From})
		}
	}
}

// valueFor is what the ranks of a program have in a variable: of its own exports or the job's,
// else of this environment.
func (p *Line) valueFor(app *job.App, name string) string {
	inherited, _ := p.around.Lookup(name)
	for _, list := range [][]job.Export{app.Exports, p.Spec.Exports} {
		for _, e := range slices.Backward(list) {
			switch {
			case !covers(e.Name, name):
			case e.Remove:
				return ""
			case e.HasValue:
				return e.Value
			default:
				return inherited
			}
		}
	}
	if p.mpi.bare.From != "" {
		return ""
	}
	return inherited
}
