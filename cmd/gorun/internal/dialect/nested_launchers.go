package dialect

import (
	"path"
	"slices"

	"gorun/launcher/job"
)

// nestedLaunchers start ranks themselves: if gorun started N of them, each would start N ranks again.
var nestedLaunchers = []string{
	"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "gorun", "torchrun",
	"mpirun.openmpi", "mpiexec.openmpi", "orterun.openmpi", "mpirun.mpich", "mpiexec.mpich",
}

// torchrunModules name torchrun for python -m.
var torchrunModules = []string{"torch.distributed.run", "torch.distributed.launch"}

// nestedLauncher says why not to start a program that is a launcher; "" for other programs.
func nestedLauncher(app job.App) string {
	word, base := app.Program, path.Base(app.Program)
	isModule := app.Start == job.StartModule
	switch {
	case isModule && slices.Contains(torchrunModules, word), !isModule && base == "torchrun":
		return word + " as the program: gorun takes its place, and each of gorun's ranks would start ranks again: " +
			"leave " + word + " out (gorun knows its options)"
	case !isModule && slices.Contains(nestedLaunchers, base):
		return word + " as the program: gorun starts the ranks itself, and each of them would start all of them again: " +
			"leave " + word + " out"
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

// noteLaunchers notes programs that are launchers in an allocation, where scripts used to have srun before every
// program. One rank may well be a launcher.
func (p *Line) noteLaunchers() {
	for _, app := range p.Spec.Apps {
		if why := nestedLauncher(app); why != "" && app.NumRanks != 1 && p.isAllocation() {
			p.Note(why)
		}
	}
}
