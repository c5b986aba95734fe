package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// perNode is gorun's count for each node. Beside a number of all ranks it is the most that Slurm may place on a node,
// and Slurm's own count of tasks says to gorun how many each has.
const perNode = "nproc-per-node"

// addProgram adds a program and gorun's own options before it to gorun's line in the script.
func (o *sbatchOptions) addProgram(p dialect.Program) {
	o.checkModule(p)
	if !p.First {
		o.line = append(o.line, ":")
	}
	if several := !p.First || p.More; several && p.NumRanks > 0 {
		o.line = append(o.line, "-n", fmt.Sprint(p.NumRanks))
	}
	for _, given := range p.Options {
		name := given.Option.Names[0]
		if slices.Contains(o.own, given.Option) || name == "version" || name == "help" || name == perNode && p.NumRanks > 0 {
			continue
		}
		o.line = append(o.line, given.Words()...)
	}
	if p.Ended {
		o.line = append(o.line, "--")
	}
	o.line = append(o.line, p.Words...)
}

// check settles what Slurm is asked for and gorun's line.
func (o *sbatchOptions) check([]string) {
	o.CheckPrograms()
	o.RefuseRankStarters()
	o.noteSlurmVariables()
	if o.Err() == nil {
		o.countTasks()
		o.settleNames()
		o.checkLine()
	}
	o.NoteStrangers()
}

// countTasks tells Slurm how many ranks there will be. -n is Slurm's tasks, which gorun finds in the allocation;
// --nproc-per-node is gorun's, and Slurm's tasks per node unless the user counts those.
func (o *sbatchOptions) countTasks() {
	total := 0
	for _, app := range o.Spec.Apps {
		total += app.NumRanks
	}
	each, nodes := o.Spec.PerNode, o.Spec.NumNodes
	if each.Kind == job.CountFixed && total > 0 && !o.asksFor("nodes") {
		nodes = (total + each.N - 1) / each.N
		_ = o.ask("--nodes", fmt.Sprintf("=%d", nodes))
	}
	if total > 0 {
		_ = o.ask("--ntasks", fmt.Sprintf("=%d", total))
		o.countOnLine(total, nodes)
	}
	switch {
	case each.Kind == job.CountUnset:
	case len(o.Spec.Apps) > 1:
		o.problem("%s does not go with several programs: each has its own -n", each.From)
	case each.Kind != job.CountFixed && total > 0:
		o.problem("%s and %s both give the number of ranks: keep one", o.RanksFrom(), each.From)
	case each.Kind != job.CountFixed:
		o.noteCPUs(each)
	case total > 0 && nodes > 0 && total > each.N*nodes:
		o.problem("%s contradicts %s with %s, which make %d", o.RanksFrom(), each.From, o.nodesFrom, each.N*nodes)
	case !o.asksFor("ntasks-per-node"):
		_ = o.ask("--ntasks-per-node", fmt.Sprintf("=%d", each.N))
	}
}

// countOnLine says the number of ranks on gorun's line, too: one task on each node may be meant for a launcher with a
// rank per GPU, but not where somebody has counted the ranks.
func (o *sbatchOptions) countOnLine(total, nodes int) {
	switch {
	case len(o.Spec.Apps) > 1: // each has its own there
	case total == nodes:
		o.line = append([]string{"--" + perNode, "1"}, o.line...)
	default:
		o.line = append([]string{"-n", fmt.Sprint(total)}, o.line...)
	}
}

// noteCPUs: Slurm cannot know how many ranks a count by GPUs or CPUs will be.
func (o *sbatchOptions) noteCPUs(each job.Count) {
	if !o.asksFor("ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", "exclusive") {
		o.Note(each.From + ": Slurm does not know how many ranks that will be, and gives each node the CPUs of one task: " +
			"add --cpus-per-gpu N, -c N or --exclusive")
	}
}

// settleNames: sbatch calls a script from its standard input "sbatch".
func (o *sbatchOptions) settleNames() {
	o.program = o.Spec.Apps[0].Program
	for _, option := range o.asked {
		if dir, ok := strings.CutPrefix(option, "--chdir="); ok {
			o.dir = dir
		}
	}
	if name := path.Base(o.program); !o.asksFor("job-name") && !strings.ContainsAny(name, "\r\n") {
		o.defaults = append(o.defaults, "--job-name="+name)
	}
}

// checkLine has gorun's own dialect read its line, so that mistakes are known now and not when the job begins.
// What belongs to the host where it is submitted, and to an allocation that may be around it, does not count.
func (o *sbatchOptions) checkLine() {
	around := o.around
	around.Lookup = func(name string) (string, bool) {
		if !isWish(name) {
			return "", false
		}
		return o.around.Lookup(name)
	}
	around.Names = func() []string {
		return slices.DeleteFunc(o.around.Names(), func(name string) bool { return !isWish(name) })
	}
	_, err := dialect.Parse("gorun", withoutEngine(o.line), around)
	var wrong *dialect.UsageError
	switch {
	case errors.As(err, &wrong):
		for _, problem := range wrong.Problems.Errors {
			o.Problem(problem)
		}
	case err != nil:
		o.Problem(err)
	}
}

// isWish reports whether a variable is the default of an option, which the job inherits.
func isWish(name string) bool {
	return (strings.HasPrefix(name, "GORUN_") && !strings.HasPrefix(name, "GORUN_JOB")) ||
		strings.HasPrefix(name, "PET_") || name == "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
}

// withoutEngine leaves out --engine: there is no such job yet.
func withoutEngine(line []string) []string {
	if at := slices.Index(line, "--engine"); at >= 0 && at+1 < len(line) {
		return slices.Delete(slices.Clone(line), at, at+2)
	}
	return line
}

// variableName is the name of an environment variable; nodeName is one as nodes have them, and hardly a variable: n1,
// gpu04.
var (
	variableName = onDemand(`^[A-Za-z_][A-Za-z0-9_]*$`)
	nodeName     = onDemand(`^[a-z][a-z_]*[0-9]+$`)
)

// checkExport tells Slurm's -x, which is followed by nodes, from gorun's, which is followed by a variable: known
// when it is submitted, not when the job begins.
func (o *sbatchOptions) checkExport(a dialect.Arg, name string) error {
	_, set := o.around.Lookup(name)
	switch {
	case set || strings.HasSuffix(name, "*") || o.OfVariable():
	case !variableName().MatchString(name), nodeName().MatchString(name):
		return fmt.Errorf("-x gives ranks a variable, and none of that name is set here; to leave out nodes, as Slurm's "+
			"own -x does: --exclude %s", shellwords.Quote(name))
	default:
		o.Note(a.From + ": the variable is not set here, so ranks get it only where the job has it")
	}
	return nil
}

// distribution is what Slurm's own -m takes: block, cyclic:block, plane=4.
var distribution = onDemand(
	`^(block|cyclic|arbitrary|\*|plane(=[0-9]+)?)(:(block|cyclic|fcyclic|\*)){0,2}(,(Pack|NoPack))?$`)

// checkModule tells Slurm's -m, a distribution of tasks, from gorun's, a Python module.
func (o *sbatchOptions) checkModule(p dialect.Program) {
	if len(p.Words) == 0 || !distribution().MatchString(p.Words[0]) {
		return
	}
	if slices.ContainsFunc(p.Options, func(g dialect.Occurrence) bool { return g.Text == "-m" }) {
		o.problem("-m %s: -m starts a Python module; for Slurm's distribution write --distribution=%s, and "+
			"--module %[1]s for a module of that name",
			p.Words[0], shellwords.Quote(p.Words[0]))
	}
}

// onDemand compiles an expression when it is first used: most command lines need none.
func onDemand(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// slurmVariable is one of Slurm's variables as a shell would replace it.
var slurmVariable = onDemand(`\$\{?(SLURM_[A-Z0-9_]+)`)

// noteSlurmVariables says that arguments are passed as they are: no shell replaces variables in them, as one does in a
// script.
func (o *sbatchOptions) noteSlurmVariables() {
	for _, app := range o.Spec.Apps {
		for i, word := range app.Args {
			found := slurmVariable().FindStringSubmatch(word)
			if found == nil || slices.ContainsFunc(append([]string{app.Program}, app.Args[:i]...), isShell) {
				continue
			}
			o.Note(fmt.Sprintf("%s is passed as it is, and no shell replaces variables in it: the program finds %s in its "+
				"environment; or start a shell: bash -c '%s ... %s'",
				word, found[1], app.Program, word))
			return
		}
	}
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "fish"}, path.Base(word))
}
