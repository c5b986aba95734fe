package plan

import (
	"fmt"
	"strings"

	"gorun/env"
)

// check reports an export that cannot be.
func (e Export) check() error {
	switch {
	case e.Name == "" || strings.ContainsAny(e.Name, "=\x00"):
		return fmt.Errorf("-x %q: not the name of a variable", e.Name)
	case e.Remove:
		return nil
	case strings.Contains(e.Value, "\x00"):
		return fmt.Errorf("-x %s: the value contains a zero byte", e.Name)
	}
	if _, isPattern := e.prefix(); isPattern {
		return nil
	}
	if err := exportable(e.Name); err != nil && !isOwn(e.Name) { // an own one is compared when its value is known
		return fmt.Errorf("%s: %w", e, err)
	}
	return nil
}

// isOwn reports whether a variable tells a rank its place, and gorun gives it to each.
func isOwn(name string) bool {
	r := ruleFor(name)
	return r != nil && r.Class == ClassIdentity && r.value != nil
}

// prefix is what the names of -x 'PREFIX*' begin with, as in Open MPI's mpirun.
func (e Export) prefix() (string, bool) {
	prefix, isPattern := strings.CutSuffix(e.Name, "*")
	return prefix, isPattern && !e.HasValue
}

// Exportable reports whether a variable can be given to ranks by -x: it says nothing of one
// process alone.
func Exportable(name string) bool { return exportable(name) == nil }

// exportable reports why a variable cannot be given to ranks by -x.
func exportable(name string) error {
	switch r := ruleFor(name); {
	case r == nil || r.Class == ClassSetting || r.Class == ClassRequest:
		return nil
	case name == env.VarToken:
		return fmt.Errorf("%s is a secret of the launcher, ranks never get it", name)
	case r.Class == ClassLauncher:
		return nil
	case r.value != nil:
		return fmt.Errorf(
			"%s is set by gorun, for each rank its own; give the program an argument or a variable of another name instead",
			name)
	default:
		return fmt.Errorf(
			"%s tells a rank of another launcher its place and would be the same for all ranks; leave it out", name)
	}
}
