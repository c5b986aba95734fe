package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// export exports a variable that an option implies; global: to all programs.
func (p *Line) export(a Arg, global bool, name, value string) {
	p.addExport(job.Export{Name: name, Value: value, HasValue: true, From: a.From}, global)
}

// displayComm makes Open MPI report at some point how ranks communicate.
func (p *Line) displayComm(when string) func(Arg) error {
	return func(a Arg) error {
		if a.On {
			p.export(a, true, "OMPI_MCA_ompi_display_comm", when)
		}
		return nil
	}
}

func (p *Line) setBuffering(a Arg) error {
	p.export(a, true, "OMPI_MCA_ompi_stream_buffering", a.Value)
	return Choice(new(string))(a)
}

// addExport exports a variable to all programs or to the current one. Options before a later program are its own;
// under mpirun's and mpiexec's names so are those before the first one, unless they are global there.
func (p *Line) addExport(e job.Export, global bool) {
	if p.later || p.dialect.colons && !global {
		p.app.Exports = append(p.app.Exports, e)
		return
	}
	p.Spec.Exports = append(p.Spec.Exports, e)
}

// setExport takes -x NAME and -x NAME=VALUE.
func (p *Line) setExport(a Arg) error {
	e, err := parseExport(a.Value)
	if err == nil {
		err = p.checkExport(e.Name, e.Value)
	}
	if err != nil {
		return err
	}
	p.addExport(e, false)
	if p.CheckExport != nil && !e.HasValue {
		return p.CheckExport(a, e.Name)
	}
	return nil
}

// parseExport reads NAME, PRE* or NAME=VALUE.
func parseExport(value string) (e job.Export, err error) {
	e.Name, e.Value, e.HasValue = strings.Cut(value, "=")
	switch {
	case e.Name == "":
		err = errors.New("the name of a variable is missing")
	case strings.Contains(strings.TrimSuffix(e.Name, "*"), "*"), e.HasValue && strings.Contains(e.Name, "*"):
		err = errors.New("a pattern is the start of a name followed by *")
	case strings.ContainsRune(value, 0):
		err = errors.New("a variable cannot hold a zero byte")
	}
	return e, err
}

// setEnv takes -genv and -env, whose two words rewriting joined by "=".
func (p *Line) setEnv(a Arg) error {
	name, value, given := strings.Cut(a.Value, "=")
	switch {
	case name == "":
		return errors.New("the name of a variable is missing")
	case !given:
		return errors.New("a name and a value are needed: " + strings.Fields(a.From)[0] + " NAME VALUE")
	case strings.ContainsRune(a.Value, 0):
		return errors.New("a variable cannot hold a zero byte")
	}
	if err := p.checkExport(name, value); err != nil {
		return err
	}
	p.export(a, isGlobal(a), name, value)
	return nil
}

// checkExport refuses templates of other launchers for a rank's number, and variables for one host. Under mpirun's and
// mpiexec's names it passes both on as they are, as these launchers do.
func (p *Line) checkExport(name, value string) error {
	if p.dialect.colons {
		return nil
	}
	if host, isHost := strings.CutPrefix(name, "@"); isHost {
		return fmt.Errorf("no variable is for one host alone: write a program for each, such as gorun -H OTHERS PROGRAM : "+
			"-H %s -x NAME=VALUE PROGRAM", host)
	}
	for _, t := range [...]struct{ template, variable string }{
		{"{rank}", "RANK"}, {"{local_rank}", "LOCAL_RANK"}, {"{node_rank}", "GROUP_RANK"}, {"{world_size}", "WORLD_SIZE"},
	} {
		if strings.Contains(value, t.template) {
			return fmt.Errorf("all ranks have the same value, and nothing is filled in for %s: have the program read %s, or "+
				"write sh -c '%s=$%[2]s exec PROGRAM'; "+
				"for the literal text, export %[3]s and write -x %[3]s", t.template, t.variable, name)
		}
	}
	return nil
}

// addNames exports, or removes, each variable of a list without patterns.
func (p *Line) addNames(a Arg, remove bool) error {
	for _, name := range strings.Split(a.Value, ",") {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%q is not the name of a variable", name)
		}
		p.addExport(job.Export{Name: name, Remove: remove, From: a.From}, isGlobal(a))
	}
	return nil
}

// setEnvList takes -genvlist and -envlist: export these variables and no others.
func (p *Line) setEnvList(a Arg) error {
	p.noEnvFrom = a.From
	p.programsWithoutEnv++
	return p.addNames(a, false)
}

func (p *Line) setEnvExcl(a Arg) error { return p.addNames(a, true) }

// isGlobal reports whether a source counts for all programs: variables, and Hydra's options that begin with g.
func isGlobal(a Arg) bool {
	return isVariable(a.From) || strings.HasPrefix(strings.TrimLeft(a.From, "-"), "g")
}

// setEnvNone takes -genvnone and -envnone.
func (p *Line) setEnvNone(a Arg) error {
	if a.On {
		p.noEnvFrom = a.From
		p.programsWithoutEnv++
	}
	return nil
}

// setEnvAll takes -envall: of all programs, because one program cannot inherit more than others.
func (p *Line) setEnvAll(a Arg) error {
	if a.On {
		p.allEnvFrom, p.Spec.ExportAll = a.From, true
	}
	return nil
}

// setHydraEnv takes the variable HYDRA_ENV.
func (p *Line) setHydraEnv(a Arg) error {
	list, listed := strings.CutPrefix(a.Value, "list:")
	switch {
	case listed:
		return p.setEnvList(Arg{Value: list, From: a.From})
	case a.Value == "none":
		a.On = true
		return p.setEnvNone(a)
	case a.Value == "all":
		p.Spec.ExportAll = true
		return nil
	}
	return errors.New("not all, none, nor list: with names of variables")
}

// setExportAll exports the whole environment; switched off, only the list, even under mpiexec's name.
func (p *Line) setExportAll(a Arg) error {
	p.Spec.ExportAll, p.exportListed = a.On, !a.On
	return nil
}

// resolveExports settles what ranks inherit. It cannot differ between programs. Under mpiexec's name ranks on other
// hosts inherit what Hydra sends there by default.
func (p *Line) resolveExports() {
	if p.noEnvFrom == "" {
		p.Spec.ExportUnlisted = p.dialect.slots == slotsOfHydra && !p.Spec.ExportAll && !p.exportListed
		return
	}
	p.Spec.ExportsOnly = true
	if p.allEnvFrom != "" {
		p.problem("%s contradicts %s", p.allEnvFrom, p.noEnvFrom)
	}
	local := strings.HasPrefix(strings.TrimLeft(p.noEnvFrom, "-"), "env")
	if local && len(p.Spec.Apps) > 1 && p.programsWithoutEnv < len(p.Spec.Apps) {
		p.problem("%s: it counts for all of several programs: write -genvnone or -genvlist NAME,..., or "+
			"-envexcl NAME,... for what one of them is not to have", p.noEnvFrom)
	}
}

func (p *Line) setUnset(a Arg) error {
	if a.Value == "" || strings.ContainsAny(a.Value, "=\x00") || strings.Contains(strings.TrimSuffix(a.Value, "*"), "*") {
		return errors.New("not the name of a variable, nor the start of one followed by *")
	}
	p.addExport(job.Export{Name: a.Value, Remove: true, From: a.From}, false)
	return nil
}

// extend returns the setter of Open MPI 5's --append-env or --prepend-env.
func (p *Line) extend(appends bool) func(Arg) error {
	return func(a Arg) error {
		head, value, given := strings.Cut(a.Value, "=")
		name, separator, bracket := strings.Cut(head, "[")
		separator, closed := strings.CutSuffix(separator, "]")
		if !given || name == "" || !bracket || !closed {
			return errors.New("write NAME[C] VALUE, where C separates the values: PATH[:] /opt/bin")
		}
		if old := p.variable(name); old != "" && appends {
			value = old + separator + value
		} else if old != "" {
			value += separator + old
		}
		p.export(a, false, name, value)
		return nil
	}
}

// envList is a list of variables in one parameter or variable.
type envList struct {
	Arg
	weak bool // a variable's, which typed options override
}

// setEnvMCAList takes Open MPI's parameter mca_base_env_list.
func (p *Line) setEnvMCAList(a Arg) error {
	p.envLists = append(p.envLists, envList{a, p.FromVariable()})
	return nil
}

func (p *Line) setEnvDelimiter(a Arg) error {
	if len(a.Value) != 1 {
		return errors.New("not one character")
	}
	p.envDelimiter = a.Value
	return nil
}

// resolveEnvLists reads the lists, now that their delimiter is known.
func (p *Line) resolveEnvLists() {
	var weak []job.Export
	for _, list := range p.envLists {
		for _, entry := range strings.Split(list.Value, cmp.Or(p.envDelimiter, ";")) {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			e, err := parseExport(entry)
			switch e.From = list.From; {
			case err != nil:
				p.problem("%s: %s: %w", list.From, entry, err)
			case list.weak:
				weak = append(weak, e)
			default:
				p.Spec.Exports = append(p.Spec.Exports, e)
			}
		}
	}
	p.Spec.Exports = append(weak, p.Spec.Exports...)
}
