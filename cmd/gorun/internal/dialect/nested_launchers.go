package dialect

import (
	"path"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// nestedLaunchers start ranks themselves: if gorun started N of them, each would start N ranks again.
var nestedLaunchers = []string{
	"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "gorun", "torchrun",
	"mpirun.openmpi", "mpiexec.openmpi", "orterun.openmpi", "mpirun.mpich", "mpiexec.mpich",
}

// torchrunModules name torchrun for python -m.
var torchrunModules = []string{"torch.distributed.run", "torch.distributed.launch"}

// torchrunIn returns how a program or a Python module names torchrun, or "".
func torchrunIn(app job.App) string {
	words := append([]string{app.Program}, app.Args...)
	isModule := app.Start == job.StartModule
	if len(words) > 2 && strings.HasPrefix(path.Base(words[0]), "python") && words[1] == "-m" {
		words, isModule = words[2:], true
	}
	if isModule && slices.Contains(torchrunModules, words[0]) || !isModule && path.Base(words[0]) == "torchrun" {
		return words[0]
	}
	return ""
}

// nestedLauncher says why not to start a program that is a launcher; "" for other programs.
func nestedLauncher(app job.App) string {
	if word := torchrunIn(app); word != "" {
		return word + " as the program: gorun takes its place, and each of gorun's ranks would start ranks again: " +
			"leave " + word + " out (gorun knows its options)"
	}
	if app.Start != job.StartModule && slices.Contains(nestedLaunchers, path.Base(app.Program)) {
		return app.Program + " as the program: gorun starts the ranks itself, and each of them would start all of them " +
			"again: leave " + app.Program + " out"
	}
	return ""
}

// RefuseLaunchers refuses programs that are launchers.
func (p *Line) RefuseLaunchers() {
	for _, app := range p.Spec.Apps {
		if why := nestedLauncher(app); why != "" {
			p.problem("%s", why)
		}
	}
}

// noteLaunchers notes launchers as the program of several ranks, and without a number of ranks torchrun, and others in
// an allocation, where scripts used to have srun before every program. One rank may well be a launcher.
func (p *Line) noteLaunchers() {
	for _, app := range p.Spec.Apps {
		why := nestedLauncher(app)
		if why != "" && (app.NumRanks > 1 || app.NumRanks == 0 && (p.isAllocation() || torchrunIn(app) != "")) {
			p.Note(why)
		}
	}
}
