package dialect

import (
	"fmt"
	"path"
	"slices"
)

// slurmVariable is one of Slurm's variables as a shell would replace it.
var slurmVariable = onDemand(`\$\{?(SLURM_[A-Z0-9_]+)`)

// noteSlurmVariables says that arguments are passed as they are: no shell replaces variables in them, as one does in a
// script.
func (p *parser) noteSlurmVariables() {
	for _, app := range p.inv.Spec.Apps {
		for i, word := range app.Args {
			found := slurmVariable().FindStringSubmatch(word)
			if found == nil || slices.ContainsFunc(append([]string{app.Program}, app.Args[:i]...), isShell) {
				continue
			}
			p.note(fmt.Sprintf("%s is passed as it is, and no shell replaces variables in it: the program finds %s in its "+
				"environment; or start a shell: bash -c '%s ... %s'",
				word, found[1], app.Program, word))
			return
		}
	}
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "fish"}, path.Base(word))
}
