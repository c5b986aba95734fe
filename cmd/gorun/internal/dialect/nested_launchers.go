package dialect

import (
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// nestedLaunchers start ranks themselves, in the job of a resource manager on all of its hosts.
var nestedLaunchers = []string{
	"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "gorun",
	"mpirun.openmpi", "mpiexec.openmpi", "orterun.openmpi", "mpirun.mpich", "mpiexec.mpich",
}

// nodeLaunchers, as commands or as Python modules, start ranks on their own host.
var nodeLaunchers = []string{"torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed"}

// launcherIn returns how an app names a launcher, and that launcher's arguments; "" for other programs.
func launcherIn(app job.App) (name string, args []string) {
	words, base := append([]string{app.Program}, app.Args...), path.Base(app.Program)
	isModule := app.Start == job.StartModule
	if strings.HasPrefix(base, "python") {
		endsOptions := func(word string) bool { return word == "-m" || !looksLikeOption(word) }
		at := 1 + slices.IndexFunc(app.Args, endsOptions)
		if at == 0 || words[at] != "-m" || at+1 == len(words) {
			return "", nil
		}
		words, isModule = words[at+1:], true
	}
	if isModule {
		base = words[0]
	}
	node := slices.Contains(nodeLaunchers, base) && isModule == strings.HasPrefix(base, "torch.")
	if node || !isModule && slices.Contains(nestedLaunchers, base) {
		return words[0], words[1:]
	}
	return "", nil
}

// limitLaunchers allows a launcher as the program of one rank on each host: these may be the nodes of one job. Several
// on a host would each start a job of their own, as would all that find the same allocation.
func (p *Line) limitLaunchers() {
	for i := range p.Spec.Apps {
		app := &p.Spec.Apps[i]
		name, args := launcherIn(*app)
		if name == "" {
			continue
		}
		r := p.dialect.rewrite(args)
		var counted, atHosts, severalNodes bool
		for _, o := range r.options {
			counted = counted || o.Option.Family == FamilyCount
			atHosts = atHosts || o.Option.Family == familyHosts
			severalNodes = severalNodes || o.Option.Name() == "nnodes" && o.Value != "1"
		}
		isCommand := func(c *cli.Command) bool { return path.Base(name) == Gorun.Name && c.HasName(r.program[0]) }
		if len(r.program) == 0 || severalNodes || slices.ContainsFunc(p.around.commands(), isCommand) {
			continue
		}
		where := " on one host"
		inJob := p.isAllocation() && !atHosts && !slices.Contains(nodeLaunchers, path.Base(name))
		if inJob {
			where = ""
		}
		why := name + " as the program of several ranks" + where + ": each would start a job of its own: " +
			p.withoutLauncher(*app, name, args, counted)
		if meant := counted && mayNest(path.Base(name)); !meant {
			app.Alone = &job.Alone{InJob: inJob, Why: why}
		} else if app.NumRanks > 1 {
			p.Note(why)
		}
	}
}

// mayNest reports whether several ranks may each start ranks with a launcher that names their number: MPI's launchers
// and gorun work in a rank. torchrun's ranks would compete for the same GPUs, and srun's wait for the job's CPUs.
func mayNest(launcher string) bool {
	return launcher != "srun" && slices.Contains(nestedLaunchers, launcher)
}

// withoutLauncher says how to start the job without a launcher, and how to start several jobs with it. A number of
// ranks among the launcher's arguments replaces gorun's.
func (p *Line) withoutLauncher(app job.App, name string, args []string, counted bool) string {
	without := "leave " + name + " out"
	typed := p.alone()
	if typed == nil {
		return without
	}
	words := append([]string{app.Program}, app.Args...)
	if app.Start == job.StartModule {
		words = append([]string{"python3", "-m"}, words...)
	}
	var line []string
	options := []string{}
	for _, o := range p.dialect.rewrite(typed).options {
		if o.Option.Family == familyStart {
			continue
		}
		options = append(options, o.typed...)
		if !counted || o.Option.Family != FamilyCount {
			line = append(line, o.typed...)
		}
	}
	all := Invocation{Dialect: p.Invocation.Dialect, Spec: p.Spec, typed: [][]string{options}}
	return p.runOr(without, append(line, args...)) + ", or for several jobs `" +
		all.Command(0, "sh", "-c", "exec "+shellwords.Join(words)) + "`"
}

// runOr returns how to run other words than those that were typed, if they make a command line, else a text.
func (p *Line) runOr(text string, words []string) string {
	if _, err := p.Invocation.Dialect.parse(words, p.around); err != nil {
		return text
	}
	return "run `" + p.dialect.Name + " " + shellwords.Join(words) + "`"
}

// RefuseLaunchers refuses programs that are launchers.
func (p *Line) RefuseLaunchers() {
	for _, app := range p.Spec.Apps {
		if name, _ := launcherIn(app); name != "" {
			p.problem("%s as the program: each rank would start ranks again: leave %[1]s out", name)
		}
	}
}
