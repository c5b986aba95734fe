package dialect

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// export gives ranks a variable for which an option stands; global: those of all programs, whichever it stands before.
// From says so in the plan.
func (p *Line) export(a Arg, global bool, name, value string) {
	p.addExport(job.Export{Name: name, Value: value, HasValue: true, From: a.From}, global)
}

// displayComm has Open MPI say at a point how ranks talk.
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
	return OneOf(a.Value, "0", "1", "2")
}

// addExport gives ranks of all programs a variable, or those of this program alone: what
// stands before a later program is its own, and called mpirun or mpiexec so is what
// stands before the first, but for what these launchers have for all programs.
func (p *Line) addExport(e job.Export, global bool) {
	if p.later || p.dialect.colons && !global {
		p.app.Exports = append(p.app.Exports, e)
		return
	}
	p.Spec.Exports = append(p.Spec.Exports, e)
}

// setEnv takes -genv and -env, which rewriting joined by "=".
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
	if err := p.checkOwnExport(name, value); err != nil {
		return err
	}
	p.export(a, isGlobal(a), name, value)
	return nil
}

// checkOwnExport refuses what looks as if gorun filled in a rank's number, or gave a variable to one host alone. Called
// mpirun or mpiexec it passes both on as they stand, as these launchers do.
func (p *Line) checkOwnExport(name, value string) error {
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
				"for the text as it stands, export %[3]s and write -x %[3]s", t.template, t.variable, name)
		}
	}
	return nil
}

// namesIn reads a list of variables, into which patterns may not come.
func namesIn(a Arg) ([]string, error) {
	list := strings.Split(a.Value, ",")
	for _, name := range list {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("%q is no name of a variable", name)
		}
	}
	return list, nil
}

// setEnvList takes -genvlist and -envlist: nothing but these.
func (p *Line) setEnvList(a Arg) error {
	list, err := namesIn(a)
	if err != nil {
		return err
	}
	for _, name := range list {
		p.addExport(job.Export{Name: name, From: a.From}, isGlobal(a))
	}
	a.On = true
	return p.setEnvNone(a)
}

// isGlobal reports whether an option of Hydra's is for all programs: its name begins with g.
// So are variables.
func isGlobal(a Arg) bool {
	name := strings.TrimLeft(a.From, "-")
	return name == a.From || strings.HasPrefix(name, "g")
}

// setEnvNone takes -genvnone and -envnone. Where there are several programs it holds for
// all or for none of them, as the environment of one cannot be taken away alone.
func (p *Line) setEnvNone(a Arg) error {
	if a.On {
		p.mpi.bare = a
		p.bareApps++
	}
	return nil
}

// finishBare has ranks inherit nothing. Called mpiexec nobody has to ask for what Hydra sends
// to other hosts by default.
func (p *Line) finishBare() {
	if p.mpi.bare.From == "" {
		p.Spec.ExportUnlisted = p.dialect.slots == slotsOfHydra && !p.Spec.ExportAll && !p.mpi.listed
		return
	}
	p.Spec.ExportsOnly = true
	if p.mpi.whole.From != "" {
		p.problem("%s contradicts %s", p.mpi.whole.From, p.mpi.bare.From)
	}
	word := strings.Fields(p.mpi.bare.From)[0]
	if local := strings.HasPrefix(strings.TrimLeft(word, "-"), "env"); local && len(p.Spec.Apps) > 1 &&
		p.bareApps < len(p.Spec.Apps) {
		p.problem("%s: it counts for all of several programs: write -genvnone or -genvlist NAME,..., or "+
			"-envexcl NAME,... for what one of them is not to have", p.mpi.bare.From)
	}
}

// setEnvExcl takes variables away.
func (p *Line) setEnvExcl(a Arg) error {
	list, err := namesIn(a)
	for _, name := range list {
		p.addExport(job.Export{Name: name, Remove: true, From: a.From}, isGlobal(a))
	}
	return err
}

func (p *Line) setUnset(a Arg) error {
	if a.Value == "" || strings.ContainsAny(a.Value, "=\x00") || strings.Contains(strings.TrimSuffix(a.Value, "*"), "*") {
		return errors.New("not the name of a variable, nor the beginning of some with * behind it")
	}
	p.addExport(job.Export{Name: a.Value, Remove: true, From: a.From}, false)
	return nil
}

// setLonger takes Open MPI 5's --append-env and --prepend-env.
func (p *Line) setLonger(a Arg, behind bool) error {
	head, value, given := strings.Cut(a.Value, "=")
	name, between, bracket := strings.Cut(head, "[")
	between, closed := strings.CutSuffix(between, "]")
	if !given || name == "" || !bracket || !closed {
		return errors.New("written NAME[C] VALUE, where C stands between the values: PATH[:] /opt/bin")
	}
	if old, _ := p.around.Lookup(name); old != "" && behind {
		value = old + between + value
	} else if old != "" {
		value += between + old
	}
	p.export(a, false, name, value)
	return nil
}

// pmixPrefix begins the variables of PMIx's parameters, none of which is the launcher's.
const pmixPrefix = "PMIX_MCA_"

// setParameter gives ranks a parameter of Open MPI's as a variable, and does what it asks the launcher for.
func (p *Line) setParameter(prefix string) func(Arg) error {
	return func(a Arg) error {
		key, value, given := strings.Cut(a.Value, "=")
		switch {
		case key == "" || strings.ContainsAny(a.Value, "\x00") || strings.ContainsAny(key, " \t"):
			return errors.New("the name of a parameter is missing")
		case !given:
			return errors.New("a parameter and its value are needed: --mca KEY VALUE")
		}
		p.export(a, true, prefix+key, value)
		if prefix == pmixPrefix {
			return nil
		}
		return p.launcherParameter(key, Arg{Value: value, From: a.From})
	}
}

// setTune reads files of parameters.
func (p *Line) setTune(a Arg) error {
	if p.tuned(a) {
		return nil
	}
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	for _, name := range strings.Split(a.Value, ",") {
		content, err := p.around.ReadFile(name)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			line, _, _ = strings.Cut(line, "#")
			if err := p.tuneLine(strings.TrimSpace(line), fmt.Sprintf("%s (%s:%d)", a.From, name, number)); err != nil {
				return fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
	}
	return nil
}

// tuneLine reads KEY = VALUE, or options -mca KEY VALUE and -x NAME=VALUE.
func (p *Line) tuneLine(line, from string) error {
	words, setMCA := strings.Fields(line), p.setParameter("OMPI_MCA_")
	if len(words) > 0 && words[0][0] != '-' {
		key, value, found := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !found || strings.ContainsAny(key, " \t") {
			return errors.New("not KEY = VALUE, nor -mca KEY VALUE and -x NAME=VALUE")
		}
		return setMCA(Arg{Value: key + "=" + strings.TrimSpace(value), From: from})
	}
	for len(words) > 0 {
		var err error
		switch option := strings.TrimLeft(words[0], "-"); {
		case option == "x" && len(words) > 1:
			err, words = p.setExport(Arg{Value: words[1], From: from}), words[2:]
		case (option == "mca" || option == "omca" || option == "gmca") && len(words) > 2:
			err, words = setMCA(Arg{Value: words[1] + "=" + words[2], From: from}), words[3:]
		default:
			return fmt.Errorf("%s: not -mca KEY VALUE, nor -x NAME=VALUE", words[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
