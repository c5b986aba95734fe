package dialect

import (
	"fmt"
	"path"
	"slices"

	"gorun/launcher/job"
)

// rankStarters are commands that start ranks themselves: as the program of a job each of its N ranks would start N
// more.
var rankStarters = []string{
	"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "gorun", "torchrun",
	"mpirun.openmpi", "mpiexec.openmpi", "orterun.openmpi", "mpirun.mpich", "mpiexec.mpich",
}

// torchrunModules are torchrun as Python's -m names it.
var torchrunModules = []string{"torch.distributed.run", "torch.distributed.launch"}

// rankStarter returns the word of a program by which that starts ranks itself, as it was typed; "" is none.
func rankStarter(app job.App) string {
	known, name := rankStarters, path.Base(app.Program)
	if app.Start == job.StartModule {
		known, name = torchrunModules, app.Program
	}
	if !slices.Contains(known, name) {
		return ""
	}
	return app.Program
}

// RefuseRankStarters has no batch job consist of a launcher's copies.
func (p *Line) RefuseRankStarters() {
	for _, app := range p.Spec.Apps {
		if word := rankStarter(app); word != "" {
			p.problem("%s", startsTwice(word))
		}
	}
}

// noteRankStarters says so in an allocation, where scripts have srun before every program. One rank may well be a
// launcher.
func (p *Line) noteRankStarters() {
	if !p.isAllocation() {
		return
	}
	for _, app := range p.Spec.Apps {
		if word := rankStarter(app); word != "" && app.NumRanks != 1 {
			p.Note(startsTwice(word))
		}
	}
}

func startsTwice(word string) string {
	if path.Base(word) == "torchrun" || slices.Contains(torchrunModules, word) {
		return fmt.Sprintf("%s as the program: gorun takes its place, and each of gorun's ranks would start ranks again: "+
			"leave %s out (gorun knows its options)", word, word)
	}
	return fmt.Sprintf(
		"%s as the program: gorun starts the ranks itself, and each of them would start all of them again: leave %s out",
		word, word)
}
