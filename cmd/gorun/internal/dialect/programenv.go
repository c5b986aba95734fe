package dialect

import (
	"slices"
	"strings"

	"gorun/launcher/job"
)

// setEnvAll takes -envall. What one program's ranks have of this environment all others have,
// too: it is what Hydra does without an option.
func (p *parser) setEnvAll(a arg) error {
	if a.on {
		p.mpi.whole, p.inv.Spec.ExportAll = a, true
	}
	return nil
}

// setTuningData takes Intel MPI's -tune, which is a variable to its library.
func (p *parser) setTuningData(a arg) error {
	if p.tuned(a) {
		return nil
	}
	p.addExport(job.Export{Name: "I_MPI_TUNING_BIN", Value: a.value, HasValue: true, From: a.from}, true)
	return text(new(string), a)
}

// setPrefix takes the folder in which Open MPI is installed.
func (p *parser) setPrefix(a arg) error {
	p.mpi.prefixes[len(p.mpi.prefixes)-1] = a
	return text(new(string), a)
}

// finishPrefixes puts the folders of --prefix before what ranks have in PATH and in
// LD_LIBRARY_PATH, on every host, as Open MPI does. In gorun's own dialect what stands before
// the first program holds for all.
func (p *parser) finishPrefixes() {
	for i := range p.inv.Spec.Apps {
		app, prefix := &p.inv.Spec.Apps[i], p.mpi.prefixes[i]
		if prefix.from == "" && !p.dialect.colons {
			prefix = p.mpi.prefixes[0]
		}
		if prefix.from == "" {
			continue
		}
		dir := strings.TrimRight(prefix.value, "/")
		for _, v := range []struct{ name, dir string }{{"PATH", dir + "/bin"}, {"LD_LIBRARY_PATH", dir + "/lib"}} {
			value := joinColon(v.dir, p.valueFor(app, v.name))
			app.Exports = append(app.Exports, job.Export{Name: v.name, Value: value, HasValue: true, From: prefix.from})
		}
	}
}

// valueFor is what the ranks of a program have in a variable: of its own exports or the job's,
// else of this environment.
func (p *parser) valueFor(app *job.App, name string) string {
	inherited, _ := p.around.Lookup(name)
	for _, list := range [][]job.Export{app.Exports, p.inv.Spec.Exports} {
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
	if p.mpi.bare.from != "" {
		return ""
	}
	return inherited
}

// joinColon joins what is not empty.
func joinColon(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ":" + b
}
