package plan

import (
	"fmt"
	"strings"

	"gorun/env"
)

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

// isOwn reports whether gorun sets the variable for each rank (RANK, LOCAL_RANK).
func isOwn(name string) bool {
	r := ruleFor(name)
	return r != nil && r.Class == ClassIdentity && r.value != nil
}

// prefix returns PREFIX for -x 'PREFIX*', which Open MPI's mpirun has too.
func (e Export) prefix() (string, bool) {
	prefix, isPattern := strings.CutSuffix(e.Name, "*")
	return prefix, isPattern && !e.HasValue
}

// Exportable reports whether -x accepts a variable: it must not describe a single process.
func Exportable(name string) bool { return exportable(name) == nil }

// exportable returns why -x does not accept a variable, or nil.
func exportable(name string) error {
	switch r := ruleFor(name); {
	case r == nil || r.Class == ClassSetting || r.Class == ClassRequest:
		return nil
	case name == env.VarToken:
		return fmt.Errorf("%s is a secret of the launcher: ranks never get it", name)
	case r.Class == ClassLauncher:
		return nil
	case r.value != nil:
		return fmt.Errorf(
			"gorun sets %s for each rank; use an argument or a variable of another name",
			name)
	default:
		return fmt.Errorf(
			"%s describes one rank of another launcher and would be the same for all ranks; leave it out", name)
	}
}
